"""Tilings of GPU kernels, and reductions split among blocks."""
