"""Cost model of tiled GPU kernels: registers, shared memory, traffic, time."""
