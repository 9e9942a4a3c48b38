"""The largest error of each function, in units of the last place (ulp) of the exact result."""

from __future__ import annotations

from dataclasses import dataclass

from ....tensor.types import DType
from ...ir import Operation


@dataclass(frozen=True, slots=True)
class Error:
    """Bounds for results that are normal numbers; denormal results are rounded once more."""

    fused: float
    """With fused multiply-add."""
    plain: float
    """Without fused multiply-add."""

    def of(self, *, fused: bool) -> float:
        """The bound with or without fused multiply-add."""
        return self.fused if fused else self.plain


# Exact functions only select or round to integers; a square root is rounded once by the
# instruction.
_EXACT, _ROUNDED = Error(0, 0), Error(0.5, 0.5)

ERRORS: dict[tuple[Operation, DType], Error] = {
    (Operation.COS, DType.F32): Error(1.7, 1.7),
    (Operation.COS, DType.F64): Error(0.9, 0.9),
    (Operation.ERF, DType.F32): Error(1.3, 1.5),
    (Operation.ERF, DType.F64): Error(1.4, 1.5),
    (Operation.ERFC, DType.F32): Error(4.1, 4.9),
    (Operation.ERFC, DType.F64): Error(4.3, 5.2),
    (Operation.EXP, DType.BF16): Error(0.03, 0.03),
    (Operation.EXP, DType.F32): Error(1.0, 1.3),
    (Operation.EXP, DType.F64): Error(0.9, 1.2),
    (Operation.EXPM1, DType.F32): Error(1.5, 1.7),
    (Operation.EXPM1, DType.F64): Error(1.9, 2.1),
    (Operation.FLOOR, DType.F32): _EXACT,
    (Operation.FLOOR, DType.F64): _EXACT,
    (Operation.LOG, DType.F32): Error(0.9, 0.9),
    (Operation.LOG, DType.F64): Error(0.9, 0.9),
    (Operation.LOG1P, DType.F32): Error(0.9, 0.9),
    (Operation.LOG1P, DType.F64): Error(0.9, 0.9),
    (Operation.MAXIMUM, DType.F32): _EXACT,
    (Operation.MAXIMUM, DType.F64): _EXACT,
    (Operation.MINIMUM, DType.F32): _EXACT,
    (Operation.MINIMUM, DType.F64): _EXACT,
    (Operation.POW, DType.F32): Error(0.6, 0.6),
    (Operation.POW, DType.F64): Error(1.1, 1.4),
    (Operation.ROUND, DType.F32): _EXACT,
    (Operation.ROUND, DType.F64): _EXACT,
    (Operation.SIN, DType.F32): Error(1.7, 1.7),
    (Operation.SIN, DType.F64): Error(0.9, 0.9),
    (Operation.SQRT, DType.F32): _ROUNDED,
    (Operation.SQRT, DType.F64): _ROUNDED,
    (Operation.TANH, DType.F32): Error(2.8, 2.8),
    (Operation.TANH, DType.F64): Error(2.8, 2.8),
}
"""Measured by `benchmarks/scalars.py`: for functions of one f32, over all floats.

A function for bf16 returns a float that is yet to be rounded, by half an ulp of bf16 at most.
"""
