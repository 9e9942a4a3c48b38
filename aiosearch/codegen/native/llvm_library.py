"""LLVM as llvmlite brings it; where that is missing, only what needs it fails."""

from __future__ import annotations

from typing import Any

from .errors import NativeError


class _Absent:
    """Stands for a library; whatever is asked of it raises NativeError."""

    def __init__(self, error: Exception) -> None:
        self._lack = (
            f"llvmlite, which compiles kernels, cannot be loaded ({error}):"
            " pip install --force-reinstall llvmlite"
        )

    def __getattr__(self, name: str) -> Any:
        raise NativeError(self._lack)


def _loaded() -> tuple[Any, Any]:
    try:
        import llvmlite
        from llvmlite import binding
    except (ImportError, OSError) as error:  # the latter of a shared library
        return (_Absent(error),) * 2
    return llvmlite, binding


llvmlite, llvm = _loaded()


def missing_llvm_reason() -> str:
    """Why kernels cannot be compiled, and what to do about it; nothing where they can."""
    return llvm._lack if isinstance(llvm, _Absent) else ""
