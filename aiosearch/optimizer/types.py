"""Element types by the names that others have for them."""

from __future__ import annotations

from ..measure import ArrayType
from ..tensor import DType, Program

NUMPY = {
    DType.F64: "float64",
    DType.F32: "float32",
    DType.F16: "float16",
    DType.BF16: "bfloat16",
    DType.I32: "int32",
    DType.BOOL: "bool",
}


def array_types(program: Program) -> tuple[ArrayType, ...]:
    """The types of a program's inputs, for an executor."""
    return tuple(
        ArrayType(NUMPY[term.dtype], tuple(int(str(size)) for size in term.shape))
        for term in program.inputs
    )
