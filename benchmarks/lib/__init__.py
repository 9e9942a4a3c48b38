"""Helpers that benchmark scripts share; the scripts put `benchmarks/` on the import path."""
