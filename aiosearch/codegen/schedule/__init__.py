"""Schedule spaces of kernels, and plans that choose one schedule for each kernel of a module."""
