"""Sums of values that are known when the code runs, each times a factor, and a constant."""

from __future__ import annotations

from dataclasses import dataclass

from .values import Value, Whole
from .writer import Writer


@dataclass(frozen=True, slots=True)
class Linear:
    """Where an index is, or how far into a buffer. What cancels is never computed."""

    terms: tuple[tuple[Value, int], ...] = ()
    """Each value once, in the order in which they were met; no factor is zero."""
    constant: int = 0

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.terms, self.constant + other) if other else self
        if not other.terms:
            return self + other.constant
        if not self.terms:
            return other + self.constant
        found = dict(self.terms)
        for value, factor in other.terms:
            found[value] = found.get(value, 0) + factor
        kept = tuple((value, factor) for value, factor in found.items() if factor)
        return Linear(kept, self.constant + other.constant)

    def __sub__(self, other: Linear) -> Linear:
        return self + other * -1

    def __mul__(self, factor: int) -> Linear:
        if factor == 1:
            return self
        if not factor:
            return Linear()
        terms = tuple((value, own * factor) for value, own in self.terms)
        return Linear(terms, self.constant * factor)

    def over(self, divisor: int, writer: Writer) -> tuple[Linear, Linear]:
        """Quotient and remainder, of a sum that is not below zero.

        What is divisible whatever the values are is divided now, the rest when the code runs.
        """
        even = Linear(tuple(term for term in self.terms if term[1] % divisor == 0))
        quotient = Linear(tuple((value, factor // divisor) for value, factor in even.terms))
        rest = self - even
        if not rest.terms:
            return quotient + rest.constant // divisor, Linear((), rest.constant % divisor)
        found = rest.whole(writer)
        whole, left = writer.divide(found, divisor), writer.remainder(found, divisor)
        return quotient + linear(whole), linear(left)

    def divisible(self, divisor: int) -> bool:
        """Whether it is, whatever the values are."""
        return all(factor % divisor == 0 for factor in (*dict(self.terms).values(), self.constant))

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
