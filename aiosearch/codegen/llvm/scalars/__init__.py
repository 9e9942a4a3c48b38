"""Scalar functions on vectors of any width, in LLVM IR: errors stated, no library called."""

from .accuracy import ERRORS, Error
from .catalogue import Conversion, definition, library, symbol

__all__ = ["ERRORS", "Conversion", "Error", "definition", "library", "symbol"]
