"""Kernels of the tile IR as Pallas text, for the GPU through Triton."""

from __future__ import annotations

from .candidates import Parameter, choices, parameters
from .errors import CannotPrint
from .parting import Plan, modules, plans
from .splitting import split
from .tiling import Tiling
from .writing import write

__all__ = [
    "CannotPrint",
    "Parameter",
    "Plan",
    "Tiling",
    "choices",
    "modules",
    "parameters",
    "plans",
    "split",
    "write",
]
