"""Conversions between `float` and the 16-bit types bf16 and f16, whose values are passed as i16.

To nearest, ties to even; NaN stays NaN. Example: 1.005 is 0x3F80A3D7 in f32. As bf16 it keeps the
upper half 0x3F80 or rounds up to 0x3F81; the lower half 0xA3D7 is above 0x8000, so it is 0x3F81,
which is 1.0078125.
"""

from __future__ import annotations

from ..operators import OperatorValue
from .float_formats import absolute

INFINITE = 0x7F800000
"""The bits of an infinite f32."""

OFFSET = (127 - 15) << 23
"""The difference of the exponent biases of f32 and f16, in the bits of an f32."""

LEAST_NORMAL = 2.0**-14
"""The smallest normal f16."""
OVERFLOW = 65536.0
"""From here on an f32 is an infinite f16; what is nearly so rounds to infinity by itself."""


def from_bf16(x: OperatorValue) -> OperatorValue:
    """The f32 whose upper half is the bf16."""
    return (x.cast("zext", "i32") << 16).cast("bitcast", "float")


def to_bf16(x: OperatorValue) -> OperatorValue:
    """The nearest bf16."""
    bits = x.bits
    # Adding 0x7FFF carries into the upper half if the lower one is above one half, and 0x8000 if
    # the upper half is odd, also for ties.
    near = bits + ((bits >> 16) & 1) + 0x7FFF
    # A NaN with only low bits set would round to infinity: its quiet bit is set instead.
    with_nans = x.body.select(x.is_nan, bits | 0x400000, near)
    return (with_nans >> 16).cast("trunc", "i16")


def from_f16(x: OperatorValue) -> OperatorValue:
    """The f32 of an f16."""
    if x.body.fused:
        return x.cast("bitcast", "half").cast("fpext", "float")
    body, bits = x.body, x.cast("zext", "i32")
    size = (bits & 0x7FFF) << 13
    exponent = size & (0x7C00 << 13)
    moved = size + OFFSET
    moved = body.select(exponent.equals(0x7C00 << 13), size | INFINITE, moved)
    denormal = (moved + (1 << 23)).cast("bitcast", "float")  # a denormal, and a bit before it
    # With one bit before it, a denormal is a normal number; subtracting that bit normalises.
    moved = body.select(exponent.equals(0), (denormal - LEAST_NORMAL).bits, moved)
    return (moved | ((bits & 0x8000) << 16)).cast("bitcast", "float")


def to_f16(x: OperatorValue) -> OperatorValue:
    """The nearest f16."""
    if x.body.fused:
        return x.cast("fptrunc", "half").cast("bitcast", "i16")
    body, size = x.body, absolute(x)
    bits = size.bits
    near = (bits - OFFSET + 0xFFF + ((bits >> 13) & 1)) >> 13
    # Added to 0.5, a number below 2^-14 has its bits aligned to multiples of 2^-24, the step of
    # f16's denormals.
    denormal = (size + 0.5).bits - body.number(0.5, "float").bits
    near = body.select(size < LEAST_NORMAL, denormal, near)
    near = body.select(size < OVERFLOW, near, body.number(0x7C00, "i32"))
    near = body.select(x.is_nan, (bits >> 13) | 0x7E00, near)
    return (near | ((x.bits >> 16) & 0x8000)).cast("trunc", "i16")
