"""Schedules of contractions: what they are, the modules that make them, and their kernels."""
