"""Bits, exponents and signs of the two floating-point formats of computation."""

from __future__ import annotations

from dataclasses import dataclass

from ..operators import OperatorValue


@dataclass(frozen=True, slots=True)
class FloatFormat:
    mantissa: int
    """How many bits of it are stored."""
    bias: int
    """What is added to an exponent before it is stored."""

    @property
    def magic(self) -> float:
        """Added to a number, rounds it: its whole part is in the lowest bits of the sum."""
        return 1.5 * 2.0**self.mantissa

    @property
    def sign(self) -> int:
        """The number with only the bit of the sign, as LLVM reads it."""
        return -1 << (31 if self.mantissa == 23 else 63)

    @property
    def least_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


FORMATS = {"float": FloatFormat(23, 127), "double": FloatFormat(52, 1023)}


def format_of(value: OperatorValue) -> FloatFormat:
    return FORMATS[value.element]


def absolute(value: OperatorValue) -> OperatorValue:
    return (value.bits & ~format_of(value).sign).cast("bitcast", value.element)


def signed_like(value: OperatorValue, sign: OperatorValue) -> OperatorValue:
    """A value that is not negative, with the sign of another one; of zeros, too."""
    sign_bit = sign.bits & format_of(value).sign
    return (value.bits | sign_bit).cast("bitcast", value.element)


def at_most(value: OperatorValue, most: float) -> OperatorValue:
    """What is not a number stays so."""
    return value.body.select(value > most, most, value)


def at_least(value: OperatorValue, least: float) -> OperatorValue:
    """What is not a number stays so."""
    return value.body.select(value < least, least, value)
