"""Schedule spaces of CPU kernels."""
