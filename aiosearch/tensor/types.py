"""What is known of a tensor before it is computed: element type, shape, place."""

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
    BOOL = "bool"
    WEAK = "weak"
    """A literal's: takes the type of what it meets."""


class Place(StrEnum):
    """Where a value lives, and how often it is computed."""

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
        """Where a thread holds the values that it read here."""
        return {Place.LOOP: Place.LOOP_REGISTER, Place.AFTER: Place.AFTER_REGISTER}[self]

    @property
    def tile(self) -> Place:
        """Where a thread of this place writes to."""
        return {Place.LOOP_REGISTER: Place.LOOP, Place.AFTER_REGISTER: Place.AFTER}[self]


@dataclass(frozen=True, slots=True)
class TensorType:
    dtype: DType
    shape: Shape
    place: Place = Place.DEVICE

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        return f"{self.dtype}[{sizes}]"
