"""Runs of `aiosearch optimize`: a function raced, or fused kernels searched alone."""
