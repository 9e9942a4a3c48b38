"""Builders of textual LLVM IR, and the arithmetic that is printed with them."""
