"""Printers of the innermost loops of reductions: `vector` in vector registers, `dot` by dot
instructions on bf16 pairs, `amx` by a matrix unit, `coded` over coded panels; and what is fused
into a reduction, `prologue` and `epilogue`.
"""
