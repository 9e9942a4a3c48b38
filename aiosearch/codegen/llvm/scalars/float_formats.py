"""Bits, exponents and signs of the two floating-point formats of computation, f32 and f64."""

from __future__ import annotations

from dataclasses import dataclass

from ..operators import OperatorValue


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
