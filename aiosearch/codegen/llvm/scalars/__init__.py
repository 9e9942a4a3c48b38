"""Scalar functions on vectors of any width, in LLVM IR: errors stated, no library called.

Each function reduces its argument to a short interval exactly enough, evaluates a minimax
polynomial there, and puts the result together. Coefficients come from Remez' exchange algorithm, in
the element type; `accuracy.ERRORS` has the largest errors, which `benchmarks/scalars.py` measures.
"""

from .catalogue import ERRORS, Conversion, Error, definition, library, symbol

__all__ = ["ERRORS", "Conversion", "Error", "definition", "library", "symbol"]
