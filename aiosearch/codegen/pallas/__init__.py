"""Kernels of the tile IR as Pallas text, for the GPU through Triton."""

from __future__ import annotations

from .candidates import choices, parameters
from .errors import CannotPrint
from .parted import Parted, different, modules, plans
from .splitting import split
from .tiling import Tiling
from .writing import write

__all__ = [
    "CannotPrint",
    "Parted",
    "Tiling",
    "choices",
    "different",
    "modules",
    "parameters",
    "plans",
    "split",
    "write",
]
