"""Linear combinations of run-time integers, as which positions and offsets are computed."""

from __future__ import annotations

from dataclasses import dataclass

from .builder import FunctionBuilder, LlvmInteger, LlvmValue


@dataclass(frozen=True, slots=True)
class Linear:
    """A sum of run-time values times constants, plus a constant. Terms that cancel are never
    computed.

    Example: with i = `%v15`, `linear(i) * 16 + 3 - (linear(i) * 16)` is the constant 3.
    """

    terms: tuple[tuple[LlvmValue, int], ...] = ()
    """Each value once, in the order in which they were met; no factor is zero."""
    constant: int = 0

    def __add__(self, right: Linear | int) -> Linear:
        if isinstance(right, int):
            return Linear(self.terms, self.constant + right) if right else self
        return self._plus(right, 1) if self.terms else right + self.constant

    def __sub__(self, right: Linear) -> Linear:
        return self._plus(right, -1)

    def __mul__(self, factor: int) -> Linear:
        if factor == 1:
            return self
        if not factor:
            return Linear()
        terms = [(value, times * factor) for value, times in self.terms]
        return Linear(tuple(terms), self.constant * factor)

    def _plus(self, addend: Linear, times: int) -> Linear:
        """The sum with `times` times the addend."""
        if not addend.terms:
            return self + addend.constant * times
        terms = [*self.terms]
        for value, factor in addend.terms:
            # Positions have few terms, so a search of the list is faster than a dictionary.
            for at, (present, before) in enumerate(terms):
                if present.text == value.text:
                    terms[at] = present, before + factor * times
                    break
            else:
                terms.append((value, factor * times))
        nonzero = [term for term in terms if term[1]]
        return Linear(tuple(nonzero), self.constant + addend.constant * times)

    def divmod(self, divisor: int, writer: FunctionBuilder) -> tuple[Linear, Linear]:
        """Quotient and remainder of a non-negative sum.

        Terms divisible whatever their values are divided now, the others at run time.
        """
        # (16 a + 8 b + 5) divided by 8 is 2 a + b, remainder 5: only odd terms need an instruction.
        even = [(value, factor // divisor) for value, factor in self.terms if factor % divisor == 0]
        quotient = Linear(tuple(even))
        if len(even) == len(self.terms):
            return quotient + self.constant // divisor, Linear((), self.constant % divisor)
        odd = [term for term in self.terms if term[1] % divisor]
        indivisible = Linear(tuple(odd), self.constant).evaluate(writer)
        whole, left = writer.divide(indivisible, divisor), writer.remainder(indivisible, divisor)
        return quotient + linear(whole), linear(left)

    def divisible(self, divisor: int) -> bool:
        """Whether the sum is divisible whatever the values are."""
        return self.constant % divisor == 0 and not any(
            factor % divisor for _, factor in self.terms
        )

    def evaluate(self, writer: FunctionBuilder) -> LlvmInteger:
        """The sum as one integer, computed here."""
        return writer.add(self.variable_part(writer), self.constant)

    def variable_part(self, writer: FunctionBuilder) -> LlvmInteger:
        """The sum without its `constant`, computed here."""
        total: LlvmInteger = 0
        for value, factor in self.terms:
            total = writer.add(total, writer.multiply(value, factor))
        return total


def linear(value: LlvmInteger) -> Linear:
    """An integer as a linear combination."""
    return Linear((), value) if isinstance(value, int) else Linear(((value, 1),))
