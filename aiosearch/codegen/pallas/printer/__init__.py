"""The printer of tiled kernels as Pallas text."""
