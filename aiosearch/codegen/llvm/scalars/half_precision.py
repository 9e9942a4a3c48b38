"""Conversions between `float` and the 16-bit types bf16 and f16, whose values travel as `i16`.

Numbers are rounded to the nearest, halves to even. What is not a number stays so.
"""

from __future__ import annotations

from ..operators import OperatorValue
from .float_formats import absolute

INFINITE = 0x7F800000
"""The bits of an infinite float."""

OFFSET = (127 - 15) << 23
"""What the exponents of both types differ by, in the bits of a float."""

LEAST_NORMAL = 2.0**-14
OVERFLOW = 65536.0
"""From here on a float is infinite as an `f16`; what is nearly so is rounded to infinity."""


def from_bf16(x: OperatorValue) -> OperatorValue:
    """The upper half of a float."""
    return (x.cast("zext", "i32") << 16).cast("bitcast", "float")


def to_bf16(x: OperatorValue) -> OperatorValue:
    bits = x.bits
    near = bits + ((bits >> 16) & 1) + 0x7FFF
    with_nans = x.body.select(x.is_nan, bits | 0x400000, near)
    return (with_nans >> 16).cast("trunc", "i16")


def from_f16(x: OperatorValue) -> OperatorValue:
    if x.body.fused:
        return x.cast("bitcast", "half").cast("fpext", "float")
    body, bits = x.body, x.cast("zext", "i32")
    size = (bits & 0x7FFF) << 13
    exponent = size & (0x7C00 << 13)
    moved = size + OFFSET
    moved = body.select(exponent.equals(0x7C00 << 13), size | INFINITE, moved)
    denormal = (moved + (1 << 23)).cast("bitcast", "float")  # a denormal, and a bit before it
    moved = body.select(exponent.equals(0), (denormal - LEAST_NORMAL).bits, moved)
    return (moved | ((bits & 0x8000) << 16)).cast("bitcast", "float")


def to_f16(x: OperatorValue) -> OperatorValue:
    if x.body.fused:
        return x.cast("fptrunc", "half").cast("bitcast", "i16")
    body, size = x.body, absolute(x)
    bits = size.bits
    near = (bits - OFFSET + 0xFFF + ((bits >> 13) & 1)) >> 13
    denormal = (size + 0.5).bits - body.number(0.5, "float").bits
    near = body.select(size < LEAST_NORMAL, denormal, near)
    near = body.select(size < OVERFLOW, near, body.number(0x7C00, "i32"))
    near = body.select(x.is_nan, (bits >> 13) | 0x7E00, near)
    return (near | ((x.bits >> 16) & 0x8000)).cast("trunc", "i16")
