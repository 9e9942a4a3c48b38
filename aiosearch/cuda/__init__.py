"""CUDA kernels on a CPU: checked, compiled for all cores and vectors, with no GPU or toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .compiled.lowering import Choices, LibraryPolicy
    from .errors import (
        CudaError,
        LaunchError,
        SourceError,
        TextError,
        UnsupportedConstruct,
    )
    from .interpreter.findings import KernelFault
    from .jax_calls import jit
    from .library_kernels import LibraryChoice
    from .modules import CudaKernel, CudaModule, KernelLaunch, load
    from .numba.api import patched

__all__ = [
    "Choices",
    "CudaError",
    "CudaKernel",
    "CudaModule",
    "KernelFault",
    "KernelLaunch",
    "LaunchError",
    "LibraryChoice",
    "LibraryPolicy",
    "SourceError",
    "TextError",
    "UnsupportedConstruct",
    "jit",
    "load",
    "patched",
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
        "jit": ".jax_calls",
        "LibraryChoice": ".library_kernels",
        "LibraryPolicy": ".compiled.lowering",
        "CudaKernel": ".modules",
        "KernelLaunch": ".modules",
        "CudaModule": ".modules",
        "load": ".modules",
        "patched": ".numba.api",
    },
)
