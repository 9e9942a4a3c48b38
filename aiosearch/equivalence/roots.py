"""Square roots of field elements, and the small constants that may leave them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from .field import Field
from .ring import Ring, Value

_SMOOTH = 2**12 * 3**4 * 5**2 * 7**2
"""Denominators that constants are recognised by: what divides this."""

_LIMIT = 2**56
_MOST = 48


class Constants:
    """Small fractions among the elements of a field."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.limit = _LIMIT if field.prime >> 120 else 0
        self.guesses = 0
        """How often an element was looked at to see whether it is a small constant."""

    def find(self, value: Value) -> Fraction | None:
        """The small fraction that a value is, if it is one."""
        if not isinstance(value, int) or not self.limit:
            return None
        self.guesses += 1
        scaled = value * _SMOOTH % self.field.prime
        if scaled < self.limit:
            return Fraction(scaled, _SMOOTH)
        if self.field.prime - scaled < self.limit:
            return Fraction(scaled - self.field.prime, _SMOOTH)
        return None

    def element(self, value: Fraction) -> int:
        """Raises ZeroDivisionError where the prime divides the denominator."""
        prime = self.field.prime
        if value.denominator == 1:
            return value.numerator % prime
        if not value.denominator % prime:
            raise ZeroDivisionError
        return value.numerator * pow(value.denominator, -1, prime) % prime


class Roots:
    """Formal roots of elements: positive constants leave them, other products stay together.

    A product is split where the original took both roots: wherever it is finite, neither factor is
    negative.
    """

    def __init__(self, field: Field, constants: Constants, taken: Callable[[int], None]) -> None:
        """`taken` is told of each radicand that is new."""
        self.field = field
        self.constants = constants
        self._taken = taken
        self._known: dict[int, Value] = {}
        self._formal: list[tuple[int, int]] = []
        """Radicands with their inverses."""
        self._products: dict[int, Value] = {}

    def trust(self) -> None:
        """Lets the roots taken so far, by the original, be multiplied from now on."""
        given = [square for square, _ in self._formal[:_MOST]]
        for at, one in enumerate(given):
            for other in given[:at]:
                product = one * other % self.field.prime
                self._products[product] = self._known[one] * self._known[other]

    def of(self, square: int) -> Value:
        found = self._known.get(square)
        if found is None:
            self.field.compared += len(self._known) + len(self._products)
            found = self._rational(square) or self._products.get(square) or self._new(square)
            self._known[square] = found
        return found

    def _rational(self, square: int) -> Value | None:
        """The root of a positive constant, or of a positive constant times a known square."""
        constant = self.constants.find(square)
        if constant is not None:
            return self._of_constant(constant) if constant > 0 else None
        for known, inverse in self._formal[:_MOST]:
            ratio = self.constants.find(square * inverse % self.field.prime)
            if ratio is not None and ratio > 0:
                return self._of_constant(ratio) * self._known[known] % self.field.prime
        return None

    def _new(self, square: int) -> Value:
        self._taken(square)
        self._formal.append((square, pow(square, -1, self.field.prime)))
        if len(self._formal) > _MOST:
            self.field.doubts.add(f"more than {_MOST} different roots")
        return self._generator(square)

    def _generator(self, square: int) -> Value:
        generator = self.field.generator()
        self.field.squares[generator] = square
        return Ring(self.field, {(0, (generator,)): 1})

    def _of_constant(self, constant: Fraction) -> Value:
        """Of a positive constant, over the roots of primes."""
        left, outside = constant.numerator * constant.denominator, 1
        value: Value = 1
        prime = 2
        while prime * prime <= left and prime < 1000:
            while left % (prime * prime) == 0:
                left, outside = left // (prime * prime), outside * prime
            if left % prime == 0:
                left, value = left // prime, value * self._of_prime(prime)
            prime += 1
        whole = math.isqrt(left)
        if whole * whole == left:
            outside *= whole
        else:
            value = value * self._of_prime(left)
        factor = self.constants.element(Fraction(outside, constant.denominator))
        return value * factor % self.field.prime

    def _of_prime(self, number: int) -> Value:
        if number not in self._known:
            self._known[number] = self._generator(number)
        return self._known[number]
