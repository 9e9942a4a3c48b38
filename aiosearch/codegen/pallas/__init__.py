"""Kernels of the tile IR as Pallas text, for the GPU through Triton or Mosaic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

if TYPE_CHECKING:
    from ..errors import CannotPrint
    from .description import DescribedKernel, described_kernels
    from .dialect import CUSTOM_CALLS, missing_mosaic, without_backend_warning
    from .layout import Tiling
    from .mosaic.module import write_mosaic
    from .mosaic.tilings import mosaic_choices, mosaic_tilings
    from .printer.module import name_of, write
    from .space.split_reduction import split
    from .space.split_space import Parted, SplitSpace, different, modules, plans
    from .space.tiling_space import IndexTile, TilingSpace, choices, parameters

__all__ = [
    "CUSTOM_CALLS",
    "CannotPrint",
    "DescribedKernel",
    "IndexTile",
    "Parted",
    "SplitSpace",
    "Tiling",
    "TilingSpace",
    "choices",
    "described_kernels",
    "different",
    "missing_mosaic",
    "modules",
    "mosaic_choices",
    "mosaic_tilings",
    "name_of",
    "parameters",
    "plans",
    "split",
    "without_backend_warning",
    "write",
    "write_mosaic",
]

__getattr__ = lazily(
    __name__,
    {
        "DescribedKernel": ".description",
        "described_kernels": ".description",
        "CUSTOM_CALLS": ".dialect",
        "without_backend_warning": ".dialect",
        "CannotPrint": "..errors",
        "Tiling": ".layout",
        "missing_mosaic": ".dialect",
        "mosaic_choices": ".mosaic.tilings",
        "mosaic_tilings": ".mosaic.tilings",
        "write_mosaic": ".mosaic.module",
        "name_of": ".printer.module",
        "write": ".printer.module",
        "split": ".space.split_reduction",
        "Parted": ".space.split_space",
        "SplitSpace": ".space.split_space",
        "different": ".space.split_space",
        "modules": ".space.split_space",
        "plans": ".space.split_space",
        "IndexTile": ".space.tiling_space",
        "TilingSpace": ".space.tiling_space",
        "choices": ".space.tiling_space",
        "parameters": ".space.tiling_space",
    },
)
