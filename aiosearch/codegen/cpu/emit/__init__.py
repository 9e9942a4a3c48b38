"""Printers of CPU kernels as LLVM IR, from the module down to one expression."""
