"""The array types of a program's inputs, as an `Executor` takes them."""

from __future__ import annotations

from ..measure import ArrayType
from ..tensor import Program
from ..tensor.types import ARRAY_NAMES

STREAMED_BYTES = 8 * 1024 * 1024
"""Bytes of a value below which caches hold it anyway; what is longer streams through memory."""


def array_types(program: Program) -> tuple[ArrayType, ...]:
    """The types of a program's inputs, whose sizes are all known."""
    return tuple(
        ArrayType(ARRAY_NAMES[term.dtype], tuple(int(str(size)) for size in term.shape))
        for term in program.inputs
    )
