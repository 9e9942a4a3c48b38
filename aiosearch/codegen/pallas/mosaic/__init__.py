"""The printer of tiled kernels for Mosaic GPU: asynchronous copies, and products of warpgroups."""
