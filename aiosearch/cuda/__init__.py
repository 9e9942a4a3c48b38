"""CUDA kernels on a CPU: checked, compiled for all cores and vectors, with no GPU or toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .compiled.lowering import Choices
    from .errors import (
        CudaError,
        LaunchError,
        SourceError,
        TextError,
        UnsupportedConstruct,
    )
    from .interpreter.findings import KernelFault
    from .modules import CudaKernel, CudaModule, KernelLaunch, load

__all__ = [
    "Choices",
    "CudaError",
    "CudaKernel",
    "CudaModule",
    "KernelFault",
    "KernelLaunch",
    "LaunchError",
    "SourceError",
    "TextError",
    "UnsupportedConstruct",
    "load",
]

__getattr__ = lazily(
    __name__,
    {
        "Choices": ".compiled.lowering",
        "CudaError": ".errors",
        "LaunchError": ".errors",
        "SourceError": ".errors",
        "TextError": ".errors",
        "UnsupportedConstruct": ".errors",
        "KernelFault": ".interpreter.findings",
        "CudaKernel": ".modules",
        "KernelLaunch": ".modules",
        "CudaModule": ".modules",
        "load": ".modules",
    },
)
