"""From the tile IR to LLVM IR for the processor at hand."""
