"""From loops over threads to LLVM IR on vectors, and to functions of this process."""
