"""The parts of Mirage's search that the workloads `Blocks` and `Kernels` share."""
