"""The superoptimizer: every program of fused kernels in a declared space."""
