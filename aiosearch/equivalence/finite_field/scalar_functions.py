"""Square roots, powers, logarithms, maxima and other functions of field elements.

Exponentials, roots and logarithms keep the laws that hold wherever both sides are finite:
`exp(x)·exp(y) = exp(x+y)`, `exp(log x) = x`, `√x·√x = x`. A maximum is known by the set of its
operands. Every other function is a symbol: equal arguments give equal values, and nothing else is
known, so that values which agree are equal and values which differ may yet be
(`ExtensionField.doubts`).

Example, over a prime p: `log(3)` is a new generator g; `exp(log(3) + x)` recognises g with
coefficient 1 in the exponent and returns `3·exp(x)`. `√12` is `2·√3`: the constant 12 is recognised
as small, 4 leaves the root, and √3 is a generator whose square is 3.

Invariant: a law is applied only where the original's own evaluation shows its side condition;
`trust` marks the point at which the original is done. Cost: dictionary look-ups by `key`, and at
most `_MOST` comparisons for a new radicand. See docs/why/verdicts.md.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from typing import Any, NoReturn

from ...tensor.algebra import Function
from .extension_field import ExponentialSum, ExtensionField, Value

_SMOOTH = 2**12 * 3**4 * 5**2 * 7**2
"""Constants are recognised if their denominator divides this: powers of 2, 3, 5 and 7."""

_LIMIT = 2**56
"""Numerators over `_SMOOTH` below this count as small constants, in fields above 2^120."""
_MOST = 48
"""Radicands that a new one is compared with; more raise a doubt."""


class RootConstants:
    """Recognises small fractions among the elements of a field."""

    def __init__(self, field: ExtensionField) -> None:
        self.field = field
        # In a small field many elements would look like small constants: 2^57 of 2^127 do, a chance
        # of 2^-70.
        self.limit = _LIMIT if field.prime >> 120 else 0
        self.guesses = 0
        """How often an element was tested for being a small constant.

        Each may be wrong by chance.
        """

    def find(self, value: Value) -> Fraction | None:
        """The small fraction that `value` is, if it is one: `find(1/2 mod p)` is Fraction(1, 2)."""
        if not isinstance(value, int) or not self.limit:
            return None
        self.guesses += 1
        # n/d times _SMOOTH is a small integer exactly if d divides _SMOOTH and n is small.
        scaled = value * _SMOOTH % self.field.prime
        if scaled < self.limit:
            return Fraction(scaled, _SMOOTH)
        if self.field.prime - scaled < self.limit:
            return Fraction(scaled - self.field.prime, _SMOOTH)
        return None

    def element(self, value: Fraction) -> int:
        """The field element of a fraction.

        Raises ZeroDivisionError if the prime divides its denominator.
        """
        prime = self.field.prime
        if value.denominator == 1:
            return value.numerator % prime
        if not value.denominator % prime:
            raise ZeroDivisionError
        return value.numerator * pow(value.denominator, -1, prime) % prime


class Roots:
    """Formal roots of elements: positive constants leave them, other products stay together.

    √x·√y is rewritten to √(xy) only where the original took both roots: wherever the original is
    finite, then, neither x nor y is negative.
    """

    def __init__(
        self,
        field: ExtensionField,
        constants: RootConstants,
        on_new_radicand: Callable[[int], None],
    ) -> None:
        """`on_new_radicand` is called with each radicand that was not met before."""
        self.field = field
        self.constants = constants
        self._taken = on_new_radicand
        self._known: dict[int, Value] = {}
        self._formal: list[tuple[int, int]] = []
        """Radicands with their inverses, in order of appearance."""
        self._products: dict[int, Value] = {}

    def trust(self) -> None:
        """Lets the roots taken so far, by the original, be multiplied from now on."""
        radicands = [square for square, _ in self._formal[:_MOST]]
        for at, left in enumerate(radicands):
            for right in radicands[:at]:
                product = left * right % self.field.prime
                # The side condition of √x·√y = √(xy): the original took both roots, so both
                # radicands are >= 0 wherever it is finite.
                self._products[product] = self._known[left] * self._known[right]

    def of(self, square: int) -> Value:
        """The root of `square`: rational, a product of trusted roots, or a new generator."""
        root = self._known.get(square)
        if root is None:
            # The look-ups below compare the radicand with all of these.
            self.field.compared += len(self._known) + len(self._products)
            root = self._rational(square) or self._products.get(square) or self._new(square)
            self._known[square] = root
        return root

    def _rational(self, square: int) -> Value | None:
        """The root of a positive constant, or of one times a radicand that was met before."""
        constant = self.constants.find(square)
        if constant is not None:
            return self._of_constant(constant) if constant > 0 else None
        # √(c·r) = √c·√r for a constant c > 0, whatever the sign of r.
        for radicand, inverse in self._formal[:_MOST]:
            ratio = self.constants.find(square * inverse % self.field.prime)
            if ratio is not None and ratio > 0:
                return self._of_constant(ratio) * self._known[radicand] % self.field.prime
        return None

    def _new(self, square: int) -> Value:
        """A generator for a radicand that nothing is known of."""
        self._taken(square)
        self._formal.append((square, pow(square, -1, self.field.prime)))
        if len(self._formal) > _MOST:
            self.field.doubts.add(f"more than {_MOST} different roots")
        return self._generator(square)

    def _generator(self, square: int) -> Value:
        """The value of a new generator whose square is `square`."""
        generator = self.field.generator()
        self.field.squares[generator] = square
        return ExponentialSum(self.field, {(0, (generator,)): 1})

    def _of_constant(self, constant: Fraction) -> Value:
        """The root of a positive constant as a rational number times roots of primes."""
        left, outside = constant.numerator * constant.denominator, 1
        value: Value = 1
        prime = 2
        # Trial division below 1000 is enough for the constants that programs hold; what is left
        # stays together under one root, still exact.
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
        """The root of a prime, or of a number without small factors, by one generator."""
        if number not in self._known:
            self._known[number] = self._generator(number)
        return self._known[number]


class Undefined:
    """What 0/0 is, as jax writes NaN: no value, which only a choice that leaves it out gets rid of.

    All else that is done with it raises ZeroDivisionError, as a division by zero does.
    """

    def _raise(self, *operands: object) -> NoReturn:
        raise ZeroDivisionError

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __neg__ = _raise

    def __getattr__(self, name: str) -> Any:
        # NumPy looks for attributes of its protocols, which are not there.
        if name.startswith("__"):
            raise AttributeError(name)
        raise ZeroDivisionError


UNDEFINED: Any = Undefined()
"""The only `Undefined`."""

_MOST_POWERS = 16
"""The largest whole factor of a logarithm that `exp` turns into a power."""
_DECIDED = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne}
"""How constants are compared, by the name of the comparison."""


class Scalars:
    """Functions of the values of one `ExtensionField`, with what they have met."""

    def __init__(self, field: ExtensionField, strict: bool = False) -> None:
        """With `strict`, 0/0 is a division by zero, wherever it is."""
        self.field = field
        self._strict = strict
        self.met: set[str] = set()
        """Names of functions met, which `FieldEvidence.functions` lists."""
        self.released = 0
        """The highest power of a logarithm's argument that one `exp` gave back."""
        self.constants = RootConstants(field)
        self.roots = Roots(field, self.constants, partial(self.applied, "sqrt"))
        self.added: set[str] = set()
        """Functions that the candidate applies, after `trust`, where the original does not."""
        self.decided = False
        """Whether `compare` found a constant difference of values that are no constants."""
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
        """Records that function `name`, which may be undefined there, is applied to `key`."""
        if (name, key) not in self._applied:
            self._applied.add((name, key))
            if self._trusted:
                self.added.add(name)

    def invert(self, value: Value) -> Value:
        """`1/value`; raises ZeroDivisionError."""
        # Recorded before it can fail: a candidate that divides where the original does not is less
        # defined.
        self.applied("a quotient", value if isinstance(value, int) else value.key)
        return self.field.invert(value)

    def quotient(self, x: Value, y: Value) -> Value:
        """`x/y`; `UNDEFINED` where both are zero, and raises ZeroDivisionError where `y` alone is.

        At a random point both are zero only if both are zero everywhere, but by chance.
        """
        if not self._strict and isinstance(x, int) and isinstance(y, int) and not x and not y:
            return UNDEFINED  # type: ignore[no-any-return]  # it has no type of values
        return x * self.invert(y) % self.field.prime

    def exp(self, value: Value) -> Value:
        """The exponential.

        Sums become products, and logarithms in the exponent what they are of.
        """
        if isinstance(value, int):
            return ExponentialSum(self.field, {(value, ()): 1}) if value else 1
        outside: Value = 1
        if self._powers:
            value, outside = self._without_logs(value)
        key = self.field.key(value)
        return outside * ExponentialSum(self.field, {(key, ()): 1}) if key else outside

    def _without_logs(self, value: ExponentialSum) -> tuple[Value, Value]:
        """The exponent without its logarithms, and the product of powers they stand for."""
        outside: Value = 1
        exponents, released = dict(value.terms), 0
        for (exponent, generators), coefficient in value.terms.items():
            if exponent or len(generators) != 1 or generators[0] not in self._powers:
                continue
            # exp(n·log x) = x^n needs n to be an integer; other multiples stay formal.
            times = self._whole(coefficient)
            if times:
                base = self._powers[generators[0]]
                if times < 0:
                    base = self.field.invert(base)
                for _ in range(abs(times)):
                    outside = outside * base % self.field.prime
                # x^n is defined wherever log x is, so the rewrite loses no point of the original.
                del exponents[exponent, generators]
                released += abs(times)
        self.released = max(self.released, released)
        return self.field.collect(exponents, 0), outside

    def _whole(self, coefficient: int) -> int:
        """The small integer that `coefficient` is modulo the prime, or 0."""
        signed = min(coefficient, coefficient - self.field.prime, key=abs)
        return signed if abs(signed) <= _MOST_POWERS else 0

    def log(self, value: Value) -> Value:
        """The logarithm: an exponential that is a factor of the whole becomes a summand."""
        self._by_name("log")
        if value == 1:
            return 0
        if isinstance(value, int):
            return self._log(value)
        _, exponent, _ = value.normal
        # log(exp(e)·f) = e + log f: e is the mean exponent of `normal`, which factors out of any
        # sum.
        moved = value * ExponentialSum(self.field, {(-exponent % self.field.prime, ()): 1})
        return exponent + self._log(moved) if moved != 1 else exponent

    def _log(self, value: Value) -> Value:
        """A generator for the logarithm of a value that no exponential divides."""
        key = self.field.key(value)
        self.applied("log", key)
        if key not in self._logs:
            generator = self.field.generator()
            self._logs[key] = (generator, value)
            self._powers[generator] = value
        return ExponentialSum(self.field, {(0, (self._logs[key][0],)): 1})

    def sqrt(self, value: Value) -> Value:
        """A formal root; an exponential that is a factor of the whole has its exponent halved."""
        self.met.add("sqrt")
        if isinstance(value, int):
            return self.roots.of(value) if value else 0
        _, exponent, _ = value.normal
        moved = value * ExponentialSum(self.field, {(-exponent % self.field.prime, ()): 1})
        if not isinstance(moved, int):
            # Squares of sums are not recognised: √((e^x + e^y)²) stays formal though it is e^x +
            # e^y.
            self.field.doubts.add("a root of a sum of exponentials")
        half = exponent * pow(2, -1, self.field.prime) % self.field.prime
        return self.roots.of(self.field.key(moved)) * self.exp(half) % self.field.prime

    def absolute(self, value: Value) -> Value:
        """`√(value²)`."""
        return self.sqrt(value * value % self.field.prime)

    def maximum(self, values: Iterable[Value]) -> Value:
        """The largest, a symbol of the set that it is the largest of."""
        members: dict[int, Value] = {}
        for value in values:
            key = self.field.key(value)
            # max is associative and idempotent: a maximum among the operands contributes its own
            # set.
            members.update(self._maxima.get(key, {key: value}))
        members = self._largest_constant(members)
        if len(members) == 1:
            return next(iter(members.values()))
        self._by_name("maximum")
        symbol = self.field.symbol("maximum", *sorted(members))
        self._maxima[symbol] = members
        return symbol

    def _largest_constant(self, members: dict[int, Value]) -> dict[int, Value]:
        """`members` with only the largest of those that are constants."""
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
        """1 or 0 where the difference is a constant, else a symbol of the difference."""
        difference = (x - y) % self.field.prime
        constant = self.constants.find(difference)
        if constant is not None:
            # x - y is a constant although x is not: the comparison no longer depends on x, not even
            # on whether x is defined.
            self.decided |= self.constants.find(x) is None
            return int(_DECIDED[how](constant, 0))
        if how == "!=":
            # `!=` by way of `==`, so that both have one symbol.
            return (1 - self.compare("==", x, y)) % self.field.prime
        self._by_name("a comparison")
        key = self.field.key(difference)
        return self.field.symbol(how, self._unsigned(key) if how == "==" else key)

    def select(self, where: Value, x: Value, y: Value) -> Value:
        """`x` or `y` where that is decided, else a symbol of all three.

        What is `UNDEFINED` elsewhere is the other: where the original is undefined, nothing is
        asked of a candidate.
        """
        if where == 1:
            return x
        if where == 0:
            return y
        if x is UNDEFINED or y is UNDEFINED:
            self._by_name("select")
            chosen, condition = (x, where) if y is UNDEFINED else (y, 1 - where)
            # A candidate that is undefined under another condition is less defined.
            self.applied("a quotient", self.field.key(condition % self.field.prime))
            return chosen
        if self.field.equal(x, y):
            return x
        self._by_name("select")
        return self.field.symbol("select", *map(self.field.key, (where, x, y)))

    def named(self, function: Function, *arguments: Value) -> Value:
        """A `function` known by name, and by its symmetry: f(-x) = f(x) or -f(x)."""
        self._by_name(function.name)
        keys = [self.field.key(argument) for argument in arguments]
        mirrored = (function.even or function.odd) and self._unsigned(keys[0]) != keys[0]
        # f(-x) is brought to the representative of {x, -x}, and the sign put outside where f is
        # odd.
        if mirrored:
            keys[0] = self._unsigned(keys[0])
        symbol = self.field.symbol(function.name, *keys)
        self.applied(function.name, symbol)
        return -symbol % self.field.prime if mirrored and function.odd else symbol

    def infinity(self, negative: bool) -> Value:
        """A symbol like any other: what holds for all numbers holds in the limit."""
        self._by_name("infinity")
        symbol = self.field.symbol("infinity")
        self.applied("infinity", symbol)
        return -symbol % self.field.prime if negative else symbol

    def whole(self, value: Value) -> Value:
        """`value` rounded towards zero: itself for integer constants, else a symbol."""
        constant = self.constants.find(value)
        if constant is not None and constant.denominator == 1:
            return value
        self._by_name("rounding")
        return self.field.symbol("rounding", self.field.key(value))

    def _unsigned(self, key: int) -> int:
        """The representative of `key` and `-key`, which even functions do not tell apart."""
        return min(key, -key % self.field.prime)

    def _by_name(self, name: str) -> None:
        """Records a function of which equality of arguments is all that is known."""
        self.met.add(name)
        self.field.doubts.add(f"{name}, of which little is known")
