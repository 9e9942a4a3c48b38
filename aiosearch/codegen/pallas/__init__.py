"""Kernels of the tile IR as Pallas text, for the GPU through Triton."""

from __future__ import annotations

from .candidates import choices, parameters
from .errors import CannotPrint
from .parted import Parted, different, modules, plans
from .splitting import split
from .tiling import Tiling
from .writing import name_of, write

__all__ = [
    "CannotPrint",
    "Parted",
    "Tiling",
    "choices",
    "different",
    "modules",
    "name_of",
    "parameters",
    "plans",
    "split",
    "write",
]
