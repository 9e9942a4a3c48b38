"""The formats of floats: bits, exponents and signs of f32 and f64, and conversions to bf16 and f16.

The 16-bit types are passed as i16, and rounded to nearest, ties to even; NaN stays NaN. Example:
1.005 is 0x3F80A3D7 in f32. As bf16 it keeps the upper half 0x3F80 or rounds up to 0x3F81; the lower
half 0xA3D7 is above 0x8000, so it is 0x3F81, which is 1.0078125.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..operators import OperatorValue

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


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """An IEEE 754 binary format."""

    mantissa: int
    """Stored bits of the mantissa: 23 or 52."""
    bias: int
    """What is added to an exponent before it is stored: 127 or 1023."""

    @property
    def magic(self) -> float:
        """A number that rounds what is added to it to an integer, which is in the lowest bits of
        the sum.

        Example in f32: 2.7 + 1.5 * 2^23 = 12582915, whose bits end in 3. The factor 1.5 keeps the
        sum in the same binade for negative numbers.
        """
        return 1.5 * 2.0**self.mantissa

    @property
    def sign(self) -> int:
        """The sign bit, as LLVM reads an integer of as many bits."""
        return -1 << (31 if self.mantissa == 23 else 63)

    @property
    def least_normal(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)


FORMATS = {"float": FloatFormat(23, 127), "double": FloatFormat(52, 1023)}
"""The format of each LLVM type."""


def format_of(value: OperatorValue) -> FloatFormat:
    """The format of a `value`."""
    return FORMATS[value.scalar]


def absolute(value: OperatorValue) -> OperatorValue:
    """The `value` without its sign bit."""
    return (value.bits & ~format_of(value).sign).cast("bitcast", value.scalar)


def signed_like(value: OperatorValue, sign: OperatorValue) -> OperatorValue:
    """A non-negative value with the sign bit of another, also of zeros."""
    sign_bit = sign.bits & format_of(value).sign
    return (value.bits | sign_bit).cast("bitcast", value.scalar)


def at_most(value: OperatorValue, most: float) -> OperatorValue:
    """The smaller of value and `most`; NaN stays NaN."""
    return value.body.select(value > most, most, value)


def at_least(value: OperatorValue, least: float) -> OperatorValue:
    """The larger of value and `least`; NaN stays NaN."""
    return value.body.select(value < least, least, value)
