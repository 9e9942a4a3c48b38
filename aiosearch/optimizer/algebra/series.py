"""What tells values of the field layer apart at little cost."""

from __future__ import annotations

from typing import TypeAlias

from ...equivalence.field import Field
from ...equivalence.ring import Ring, Value

Jet: TypeAlias = tuple[int, int, int]
"""The first coefficients of a power series."""

_WIDTH = 16
"""Bytes for a field element."""


class Series:
    """Takes an exponential for the power series of its exponent times a small number.

    Sums, products and inverses go over into those of series. A root and a logarithm are numbers of
    their own: in a normal form no root meets itself.
    """

    def __init__(self, field: Field) -> None:
        self._field = field
        self._half = pow(2, -1, field.prime)
        self._generators: dict[int, Jet] = {}

    def written(self, value: Value) -> bytes:
        """As bytes: equal values in normal form give equal ones."""
        return b"".join(one.to_bytes(_WIDTH, "little") for one in self.jet(value))

    def jet(self, value: Value) -> Jet:
        if isinstance(value, int):
            return value, 0, 0
        total, prime = (0, 0, 0), self._field.prime
        for (exponent, generators), coefficient in value.terms.items():
            own = self._exponential(exponent, coefficient)
            for generator in generators:
                own = self._times(own, self._generator(generator))
            total = (total[0] + own[0], total[1] + own[1], total[2] + own[2])
        return total[0] % prime, total[1] % prime, total[2] % prime

    def _exponential(self, exponent: int, factor: int) -> Jet:
        prime = self._field.prime
        once = exponent * factor % prime
        return factor, once, once * exponent * self._half % prime

    def _times(self, x: Jet, y: Jet) -> Jet:
        prime = self._field.prime
        return (
            x[0] * y[0] % prime,
            (x[0] * y[1] + x[1] * y[0]) % prime,
            (x[0] * y[2] + x[1] * y[1] + x[2] * y[0]) % prime,
        )

    def _generator(self, generator: int) -> Jet:
        if generator not in self._generators:
            below = self._field.factors.get(generator)
            found = self._inverse(below) if below is not None else None
            self._generators[generator] = found or (self._symbol(generator), 0, 0)
        return self._generators[generator]

    def _inverse(self, below: Ring) -> Jet | None:
        """One over a sum; None where the series has no inverse."""
        prime, (a, b, c) = self._field.prime, self.jet(below)
        if not a:
            return None
        one = pow(a, -1, prime)
        slope = -b * one * one % prime
        return one, slope, -(b * slope + c * one) * one % prime

    def _symbol(self, generator: int) -> int:
        return self._field.symbol("series", generator)
