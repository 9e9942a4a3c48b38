"""Kernels of the tile IR as Pallas text, for the GPU through Triton."""

from __future__ import annotations

from .errors import CannotPrint
from .layout import Tiling
from .printer.module import name_of, write
from .space.split_reduction import split
from .space.split_space import Parted, different, modules, plans
from .space.tiling_space import choices, parameters

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
