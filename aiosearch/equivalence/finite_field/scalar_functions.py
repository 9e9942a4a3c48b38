"""Square roots, powers and other non-arithmetic functions of field values.

What field values become under functions that are not arithmetic.

Exponentials, roots and logarithms keep the laws that hold wherever both sides are finite. Other
functions are known by name: equal arguments give equal values, and nothing else is known, so that
values which agree are equal and values which differ may yet be.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial

from ...tensor.algebra import Function
from .extension_field import ExponentialSum, ExtensionField, Value

_SMOOTH = 2**12 * 3**4 * 5**2 * 7**2
"""Denominators that constants are recognised by: what divides this."""

_LIMIT = 2**56
_MOST = 48


class RootConstants:
    """Small fractions among the elements of a field."""

    def __init__(self, field: ExtensionField) -> None:
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

    def __init__(
        self, field: ExtensionField, constants: RootConstants, taken: Callable[[int], None]
    ) -> None:
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
        return ExponentialSum(self.field, {(0, (generator,)): 1})

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


_MOST_POWERS = 16
_DECIDED = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne}


class Scalars:
    """Functions of the values of one field, with what they have met."""

    def __init__(self, field: ExtensionField) -> None:
        self.field = field
        self.met: set[str] = set()
        self.released = 0
        """The most powers of what is under logarithms that one exponential gave back."""
        self.constants = RootConstants(field)
        self.roots = Roots(field, self.constants, partial(self.applied, "sqrt"))
        self.added: set[str] = set()
        """What was applied, since `trust`, to what it was not applied to before."""
        self.decided = False
        """Whether a comparison was decided of what is no constant."""
        self._trusted = False
        self._applied: set[tuple[str, int]] = set()
        self._logs: dict[int, tuple[int, Value]] = {}
        self._powers: dict[int, Value] = {}
        self._maxima: dict[int, dict[int, Value]] = {}

    def trust(self) -> None:
        """Says that the original has been evaluated, and a candidate follows."""
        self.roots.trust()
        self._trusted = True

    def applied(self, name: str, key: int) -> None:
        """Records that something is applied that may be undefined there."""
        if (name, key) not in self._applied:
            self._applied.add((name, key))
            if self._trusted:
                self.added.add(name)

    def invert(self, value: Value) -> Value:
        """One over a value; raises ZeroDivisionError."""
        self.applied("a quotient", value if isinstance(value, int) else value.key)
        return self.field.invert(value)

    def exp(self, value: Value) -> Value:
        """Sums become products, and logarithms what they are of."""
        if isinstance(value, int):
            return ExponentialSum(self.field, {(value, ()): 1}) if value else 1
        found: Value = 1
        if self._powers:
            value, found = self._without_logs(value)
        key = self.field.key(value)
        return found * ExponentialSum(self.field, {(key, ()): 1}) if key else found

    def _without_logs(self, value: ExponentialSum) -> tuple[Value, Value]:
        """Takes the logarithms with small whole factors out of an exponent."""
        found: Value = 1
        rest, released = dict(value.terms), 0
        for (exponent, generators), coefficient in value.terms.items():
            if exponent or len(generators) != 1 or generators[0] not in self._powers:
                continue
            times = self._whole(coefficient)
            if times:
                base = self._powers[generators[0]]
                if times < 0:
                    base = self.field.invert(base)
                for _ in range(abs(times)):
                    found = found * base % self.field.prime
                del rest[exponent, generators]
                released += abs(times)
        self.released = max(self.released, released)
        return self.field.collect(rest, 0), found

    def _whole(self, coefficient: int) -> int:
        signed = min(coefficient, coefficient - self.field.prime, key=abs)
        return signed if abs(signed) <= _MOST_POWERS else 0

    def log(self, value: Value) -> Value:
        """Exponentials that are factors of the whole become summands."""
        self._by_name("log")
        if value == 1:
            return 0
        if isinstance(value, int):
            return self._log(value)
        _, exponent, _ = value.normal
        moved = value * ExponentialSum(self.field, {(-exponent % self.field.prime, ()): 1})
        return exponent + self._log(moved) if moved != 1 else exponent

    def _log(self, value: Value) -> Value:
        key = self.field.key(value)
        self.applied("log", key)
        if key not in self._logs:
            generator = self.field.generator()
            self._logs[key] = (generator, value)
            self._powers[generator] = value
        return ExponentialSum(self.field, {(0, (self._logs[key][0],)): 1})

    def sqrt(self, value: Value) -> Value:
        """A formal root; exponentials that are factors of the whole are halved."""
        self.met.add("sqrt")
        if isinstance(value, int):
            return self.roots.of(value) if value else 0
        _, exponent, _ = value.normal
        moved = value * ExponentialSum(self.field, {(-exponent % self.field.prime, ()): 1})
        if not isinstance(moved, int):
            self.field.doubts.add("a root of a sum of exponentials")
        half = exponent * pow(2, -1, self.field.prime) % self.field.prime
        return self.roots.of(self.field.key(moved)) * self.exp(half) % self.field.prime

    def absolute(self, value: Value) -> Value:
        """The root of the square."""
        return self.sqrt(value * value % self.field.prime)

    def maximum(self, values: Iterable[Value]) -> Value:
        """The largest, known by the set that it is the largest of."""
        members: dict[int, Value] = {}
        for value in values:
            key = self.field.key(value)
            members.update(self._maxima.get(key, {key: value}))
        members = self._largest_constant(members)
        if len(members) == 1:
            return next(iter(members.values()))
        self._by_name("maximum")
        found = self.field.symbol("maximum", *sorted(members))
        self._maxima[found] = members
        return found

    def _largest_constant(self, members: dict[int, Value]) -> dict[int, Value]:
        constants = {
            key: constant
            for key, value in members.items()
            if (constant := self.constants.find(value)) is not None
        }
        if len(constants) < 2:
            return members
        largest = max(constants, key=lambda key: constants[key])
        return {k: v for k, v in members.items() if k == largest or k not in constants}

    def compare(self, how: str, x: Value, y: Value) -> Value:
        """One or zero where it can be told, else known by the difference."""
        difference = (x - y) % self.field.prime
        constant = self.constants.find(difference)
        if constant is not None:
            self.decided |= self.constants.find(x) is None
            return int(_DECIDED[how](constant, 0))
        if how == "!=":
            return (1 - self.compare("==", x, y)) % self.field.prime
        self._by_name("a comparison")
        key = self.field.key(difference)
        return self.field.symbol(how, self._unsigned(key) if how == "==" else key)

    def select(self, where: Value, x: Value, y: Value) -> Value:
        if where == 1 or self.field.equal(x, y):
            return x
        if where == 0:
            return y
        self._by_name("select")
        return self.field.symbol("select", *map(self.field.key, (where, x, y)))

    def named(self, function: Function, *arguments: Value) -> Value:
        """A function that is known by name, and by what it makes of a sign."""
        self._by_name(function.name)
        keys = [self.field.key(argument) for argument in arguments]
        turned = (function.even or function.odd) and self._unsigned(keys[0]) != keys[0]
        if turned:
            keys[0] = self._unsigned(keys[0])
        found = self.field.symbol(function.name, *keys)
        self.applied(function.name, found)
        return -found % self.field.prime if turned and function.odd else found

    def infinity(self, negative: bool) -> Value:
        """A number like any other: what holds for all of them holds in the limit."""
        self._by_name("infinity")
        found = self.field.symbol("infinity")
        self.applied("infinity", found)
        return -found % self.field.prime if negative else found

    def whole(self, value: Value) -> Value:
        """Rounded towards zero."""
        constant = self.constants.find(value)
        if constant is not None and constant.denominator == 1:
            return value
        self._by_name("rounding")
        return self.field.symbol("rounding", self.field.key(value))

    def _unsigned(self, key: int) -> int:
        return min(key, -key % self.field.prime)

    def _by_name(self, name: str) -> None:
        self.met.add(name)
        self.field.doubts.add(f"{name}, of which little is known")
