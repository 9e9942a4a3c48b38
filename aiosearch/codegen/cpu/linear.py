"""Sums of values that are known when the code runs, each times a factor, and a constant."""

from __future__ import annotations

from dataclasses import dataclass

from .writer import Value, Whole, Writer


@dataclass(frozen=True, slots=True)
class Linear:
    """Where an index is, or how far into a buffer. What cancels is never computed."""

    terms: tuple[tuple[Value, int], ...] = ()
    """Each value once, in the order in which they were met; no factor is zero."""
    constant: int = 0

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.terms, self.constant + other)
        found = dict(self.terms)
        for value, factor in other.terms:
            found[value] = found.get(value, 0) + factor
        kept = tuple((value, factor) for value, factor in found.items() if factor)
        return Linear(kept, self.constant + other.constant)

    def __sub__(self, other: Linear) -> Linear:
        return self + other * -1

    def __mul__(self, factor: int) -> Linear:
        if not factor:
            return Linear()
        terms = tuple((value, own * factor) for value, own in self.terms)
        return Linear(terms, self.constant * factor)

    def over(self, divisor: int) -> tuple[Linear, int]:
        """Quotient and remainder, where all that is not constant is divisible."""
        assert all(factor % divisor == 0 for _, factor in self.terms), (self, divisor)
        terms = tuple((value, factor // divisor) for value, factor in self.terms)
        quotient, remainder = divmod(self.constant, divisor)
        return Linear(terms, quotient), remainder

    def whole(self, writer: Writer) -> Whole:
        """Its value, computed here."""
        return writer.add(self.moving(writer), self.constant)

    def moving(self, writer: Writer) -> Whole:
        """The same without its constant."""
        found: Whole = 0
        for value, factor in self.terms:
            found = writer.add(found, writer.multiply(value, factor))
        return found


def linear(value: Whole) -> Linear:
    return Linear((), value) if isinstance(value, int) else Linear(((value, 1),))
