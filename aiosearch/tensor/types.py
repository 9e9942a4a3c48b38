"""What is known of a tensor before it is computed: element type, shape and place (`TensorType`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from .sizes import Dim

Shape: TypeAlias = tuple[Dim, ...]


class DType(StrEnum):
    """Element types. Arithmetic is done in at least 32 bits and rounded when it is stored."""

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    I32 = "i32"
    I8 = "i8"
    U8 = "u8"
    BOOL = "bool"
    WEAK = "weak"
    """A literal's type, which becomes that of the operand it meets."""


NARROW = frozenset({DType.I8, DType.U8})
"""Integers that are stored, moved and cast; nothing is computed in so few bits."""
WHOLE = NARROW | {DType.I32}
"""Integer types."""
EXACT = WHOLE | {DType.BOOL}
"""Types whose arithmetic is not rounded."""
HALVES = frozenset({DType.F16, DType.BF16})
"""Floats of 16 bits."""
FLOATING = HALVES | {DType.F32, DType.F64}
"""Types whose results are rounded."""

ARRAY_NAMES = {
    DType.F64: "float64",
    DType.F32: "float32",
    DType.F16: "float16",
    DType.BF16: "bfloat16",
    DType.I32: "int32",
    DType.I8: "int8",
    DType.U8: "uint8",
    DType.BOOL: "bool",
}
"""Names of the types in NumPy and JAX."""
JAX_NAMES = {
    dtype: f"jnp.{name}" if dtype is not DType.BOOL else "jnp.bool_"
    for dtype, name in ARRAY_NAMES.items()
}
"""Names of the types in JAX source text."""
BYTES = {
    DType.F64: 8,
    DType.F32: 4,
    DType.F16: 2,
    DType.BF16: 2,
    DType.I32: 4,
    DType.I8: 1,
    DType.U8: 1,
    DType.BOOL: 1,
}
"""Bytes of an element in memory."""


class Place(StrEnum):
    """Where a value is stored, and how often it is computed."""

    ANYWHERE = "anywhere"
    """A literal."""
    DEVICE = "device"
    """A kernel graph's tensor, in the device's memory."""
    LOOP = "loop"
    """A block's tile before accumulation: one for each iteration."""
    AFTER = "after"
    """A block's tile after accumulation: one for each block."""
    LOOP_REGISTER = "loop register"
    """A thread's values, before accumulation."""
    AFTER_REGISTER = "after register"
    """A thread's values, after accumulation."""

    @property
    def register(self) -> Place:
        """The place of the registers that a thread reads a tile of this place into."""
        return {Place.LOOP: Place.LOOP_REGISTER, Place.AFTER: Place.AFTER_REGISTER}[self]

    @property
    def tile(self) -> Place:
        """The place of the tile that a thread writes registers of this place to."""
        return {Place.LOOP_REGISTER: Place.LOOP, Place.AFTER_REGISTER: Place.AFTER}[self]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type, shape and place of a value."""

    dtype: DType
    shape: Shape
    place: Place = Place.DEVICE

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        return f"{self.dtype}[{sizes}]"
