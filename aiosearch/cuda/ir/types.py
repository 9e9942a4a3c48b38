"""The element types of the IR. They carry their sign: one `div` serves `int` and `unsigned`."""

from __future__ import annotations

from enum import StrEnum


class ScalarType(StrEnum):
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


FLOATS = frozenset({ScalarType.F16, ScalarType.F32, ScalarType.F64})
_SIGNED = frozenset({ScalarType.I8, ScalarType.I16, ScalarType.I32, ScalarType.I64})
INTEGERS = _SIGNED | {ScalarType.U8, ScalarType.U16, ScalarType.U32, ScalarType.U64}
_SIZES = {
    ScalarType.BOOL: 1,
    ScalarType.I8: 1,
    ScalarType.U8: 1,
    ScalarType.I16: 2,
    ScalarType.U16: 2,
    ScalarType.F16: 2,
    ScalarType.I32: 4,
    ScalarType.U32: 4,
    ScalarType.F32: 4,
    ScalarType.I64: 8,
    ScalarType.U64: 8,
    ScalarType.F64: 8,
    ScalarType.PTR: 8,
}
