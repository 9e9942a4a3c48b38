"""LLVM IR as text: `builder` functions, values and control flow; `linear`, `vectors`, `arithmetic`
and `memory` what code is made of; `operators` and `scalars` the functions that LLVM has no
instruction for.
"""
