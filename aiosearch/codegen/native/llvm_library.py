"""LLVM as llvmlite brings it; where llvmlite is missing, only what needs it fails."""

from __future__ import annotations

from typing import Any, TypeAlias

from ..errors import NativeError

LlvmModule: TypeAlias = Any
"""A module of llvmlite, which has no type annotations."""
LlvmContext: TypeAlias = Any
"""A context of llvmlite, which owns types and constants."""
LlvmTarget: TypeAlias = Any
"""A target machine of llvmlite."""
LlvmLoader: TypeAlias = Any
"""An LLJIT instance of llvmlite, which links object code."""
LlvmLibrary: TypeAlias = Any
"""Object code linked into this process, which is unloaded with its last reference."""


class _Absent:
    """Stands for a missing library: every attribute raises `NativeError`."""

    def __init__(self, error: Exception) -> None:
        self._lack = (
            f"llvmlite, which compiles kernels, cannot be loaded ({error}):"
            " pip install --force-reinstall llvmlite"
        )

    def __getattr__(self, name: str) -> Any:
        """Raises `NativeError` with what to install."""
        raise NativeError(self._lack)


def _loaded() -> tuple[Any, Any]:
    """The package `llvmlite` and its module `binding`, or stand-ins for both."""
    try:
        import llvmlite
        from llvmlite import binding
    except (ImportError, OSError) as error:  # the latter of a shared library
        return (_Absent(error),) * 2
    return llvmlite, binding


llvmlite, llvm = _loaded()


def missing_llvm_reason() -> str:
    """Why kernels cannot be compiled, and what to do about it; empty where they can."""
    return llvm._lack if isinstance(llvm, _Absent) else ""
