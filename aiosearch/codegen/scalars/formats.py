"""What the two floating-point formats of computation are made of."""

from __future__ import annotations

from dataclasses import dataclass

from .writing import Value


@dataclass(frozen=True, slots=True)
class Format:
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


FORMATS = {"float": Format(23, 127), "double": Format(52, 1023)}


def format_of(value: Value) -> Format:
    return FORMATS[value.element]


def absolute(value: Value) -> Value:
    return (value.bits & ~format_of(value).sign).cast("bitcast", value.element)


def signed_like(value: Value, sign: Value) -> Value:
    """A value that is not negative, with the sign of another one; of zeros, too."""
    taken = sign.bits & format_of(value).sign
    return (value.bits | taken).cast("bitcast", value.element)


def at_most(value: Value, most: float) -> Value:
    """What is not a number stays so."""
    return value.body.select(value > most, most, value)


def at_least(value: Value, least: float) -> Value:
    """What is not a number stays so."""
    return value.body.select(value < least, least, value)
