"""Machine code in this process: LLVM compiles what a printer wrote, and XLA calls it."""
