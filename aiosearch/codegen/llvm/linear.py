"""Linear combinations of run-time integers, as which positions and offsets are computed."""

from __future__ import annotations

from dataclasses import dataclass

from .builder import FunctionBuilder, LlvmInteger, LlvmValue


@dataclass(frozen=True, slots=True)
class Linear:
    """Where an index is, or how far into a buffer. What cancels is never computed."""

    terms: tuple[tuple[LlvmValue, int], ...] = ()
    """Each value once, in the order in which they were met; no factor is zero."""
    constant: int = 0

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.terms, self.constant + other) if other else self
        return self._plus(other, 1) if self.terms else other + self.constant

    def __sub__(self, other: Linear) -> Linear:
        return self._plus(other, -1)

    def __mul__(self, factor: int) -> Linear:
        if factor == 1:
            return self
        if not factor:
            return Linear()
        terms = [(value, own * factor) for value, own in self.terms]
        return Linear(tuple(terms), self.constant * factor)

    def _plus(self, other: Linear, times: int) -> Linear:
        """The other so many times; terms are few."""
        if not other.terms:
            return self + other.constant * times
        found = [*self.terms]
        for value, factor in other.terms:
            for at, (own, before) in enumerate(found):
                if own.text == value.text:
                    found[at] = own, before + factor * times
                    break
            else:
                found.append((value, factor * times))
        kept = [term for term in found if term[1]]
        return Linear(tuple(kept), self.constant + other.constant * times)

    def over(self, divisor: int, writer: FunctionBuilder) -> tuple[Linear, Linear]:
        """Quotient and remainder, of a sum that is not below zero.

        What is divisible whatever the values are is divided now, the rest when the code runs.
        """
        even = [(value, factor // divisor) for value, factor in self.terms if factor % divisor == 0]
        quotient = Linear(tuple(even))
        if len(even) == len(self.terms):
            return quotient + self.constant // divisor, Linear((), self.constant % divisor)
        odd = [term for term in self.terms if term[1] % divisor]
        found = Linear(tuple(odd), self.constant).whole(writer)
        whole, left = writer.divide(found, divisor), writer.remainder(found, divisor)
        return quotient + linear(whole), linear(left)

    def divisible(self, divisor: int) -> bool:
        """Whether it is, whatever the values are."""
        return self.constant % divisor == 0 and not any(own % divisor for _, own in self.terms)

    def whole(self, writer: FunctionBuilder) -> LlvmInteger:
        """Its value, computed here."""
        return writer.add(self.moving(writer), self.constant)

    def moving(self, writer: FunctionBuilder) -> LlvmInteger:
        """The same without its constant."""
        found: LlvmInteger = 0
        for value, factor in self.terms:
            found = writer.add(found, writer.multiply(value, factor))
        return found


def linear(value: LlvmInteger) -> Linear:
    return Linear((), value) if isinstance(value, int) else Linear(((value, 1),))
