"""The element types of the IR. They carry their sign: one `div` serves `int` and `unsigned`."""

from __future__ import annotations

from enum import StrEnum


class Scalar(StrEnum):
    """The type of a value. A pointer is a number of bytes into the address space of its machine."""

    BOOL = "bool"
    I8 = "i8"
    U8 = "u8"
    I16 = "i16"
    U16 = "u16"
    I32 = "i32"
    U32 = "u32"
    I64 = "i64"
    U64 = "u64"
    F16 = "f16"
    F32 = "f32"
    F64 = "f64"
    PTR = "ptr"

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return _SIZES[self]

    @property
    def is_float(self) -> bool:
        return self in FLOATS

    @property
    def is_integer(self) -> bool:
        """Whether it is a whole number; `bool` and pointers are not."""
        return self in INTEGERS

    @property
    def is_signed(self) -> bool:
        return self in _SIGNED


FLOATS = frozenset({Scalar.F16, Scalar.F32, Scalar.F64})
_SIGNED = frozenset({Scalar.I8, Scalar.I16, Scalar.I32, Scalar.I64})
INTEGERS = _SIGNED | {Scalar.U8, Scalar.U16, Scalar.U32, Scalar.U64}
_SIZES = {
    Scalar.BOOL: 1,
    Scalar.I8: 1,
    Scalar.U8: 1,
    Scalar.I16: 2,
    Scalar.U16: 2,
    Scalar.F16: 2,
    Scalar.I32: 4,
    Scalar.U32: 4,
    Scalar.F32: 4,
    Scalar.I64: 8,
    Scalar.U64: 8,
    Scalar.F64: 8,
    Scalar.PTR: 8,
}
