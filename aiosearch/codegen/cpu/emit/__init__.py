"""Printers of CPU kernels as LLVM IR, from `kernel` (functions and blocks) over `stage` (loops
around register tiles) to `expression`, `access` and `addressing` (one vector)."""
