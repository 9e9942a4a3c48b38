"""Reductions of CPU kernels: in vectors, by dot instructions, by AMX, from coded panels."""
