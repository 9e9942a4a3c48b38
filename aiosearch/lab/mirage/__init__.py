"""Mirage's search as its first version did it, and what z3 says of our own search: a study.

`Blocks` and `Kernels` enumerate programs and ask z3 of every prefix (`--prune z3`). `referee` asks
z3 about the values that our own subterm test accepted (`--referee`).
"""
