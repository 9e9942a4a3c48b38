"""A prime field with what is adjoined to it: names, roots, inverses of sums."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from .ring import UNIT, Monomial, Ring, Terms, Value

MOST_TERMS = 400_000
"""How many terms are put together before a comparison is given up: about a second's work."""


class Obstacle(Exception):
    """What stands in the way of evaluating a program in a field."""


class Field:
    """A prime, and the generators and names met so far. Values of one field meet no others."""

    def __init__(self, prime: int, seed: bytes = b"", most_terms: int = MOST_TERMS) -> None:
        self.prime = prime
        self._most_terms = most_terms
        self.squares: dict[int, int] = {}
        """For the generators that are roots, what they are roots of."""
        self.factors: dict[int, Ring] = {}
        """For the generators that are inverses, of what."""
        self.compared = 0
        """At least the pairs of different things that might by chance have been taken for one."""
        self.spent = 0
        """How many terms were put together."""
        self.widest = 1
        """The most terms that a sum had whose exponents were moved by their mean."""
        self.doubts: set[str] = set()
        """Why values that are kept apart might yet be equal."""
        self._seed = seed
        self._count = 0
        self._names: dict[tuple[object, ...], int] = {}
        self._inverses: dict[int, int] = {}
        self._shadows: dict[int, int | None] = {}

    def generator(self) -> int:
        """A new one."""
        self._count += 1
        return self._count

    def symbol(self, *name: object) -> int:
        """A uniform element, the same for the same name."""
        found = self._names.get(name)
        if found is None:
            self.compared += len(self._names)
            text = repr(name).encode()
            digest = hashlib.blake2b(text, key=self._seed, digest_size=32).digest()
            found = self._names[name] = int.from_bytes(digest, "little") % self.prime
        return found

    def key(self, value: Value) -> int:
        """A field element in the place of a value: adds as values do."""
        if isinstance(value, int):
            return value
        if value.inverses:
            self.doubts.add("a quotient of sums of exponentials inside a function")
        if any(g in self.squares for _, generators in value.terms for g in generators):
            self.doubts.add("a root inside a function")
        return value.key

    def invert(self, value: Value) -> Value:
        """One over a value; raises ZeroDivisionError where that is zero."""
        if isinstance(value, int):
            if not value:
                raise ZeroDivisionError
            return pow(value, -1, self.prime)
        return value.inverse

    def equal(self, x: Value, y: Value) -> bool:
        if isinstance(x, int) and isinstance(y, int):
            self.compared += 1
            return x == y
        ours, theirs = self.shadow(x), self.shadow(y)
        if ours is not None and theirs is not None and ours != theirs:
            return False
        return self.is_zero(x - y)

    def shadow(self, value: Value) -> int | None:
        """What a value comes to where all exponentials are one: equal values, equal shadows.

        None where that is a root or a division by zero. It is cheap where clearing is not.
        """
        if isinstance(value, int):
            return value
        total = 0
        for (_, generators), coefficient in value.terms.items():
            for generator in generators:
                own = self._shadow_of(generator)
                if own is None:
                    return None
                coefficient = coefficient * own % self.prime
            total += coefficient
        return total % self.prime

    def _shadow_of(self, generator: int) -> int | None:
        if generator not in self._shadows:
            found: int | None = None
            if generator in self.factors:
                below = self.shadow(self.factors[generator])
                found = pow(below, -1, self.prime) if below else None
            elif generator not in self.squares:
                found = self.symbol("shadow", generator)
            self._shadows[generator] = found
        return self._shadows[generator]

    def is_zero(self, value: Value) -> bool:
        if isinstance(value, Ring) and value.inverses:
            value, _ = value.cleared()
        return value == 0

    def total(self, values: Iterable[Value]) -> Value:
        return self.dot((value, 1) for value in values)

    def dot(self, pairs: Iterable[tuple[Value, Value]]) -> Value:
        """The sum of products."""
        plain, terms, inserted = 0, Terms(), 1
        for x, y in pairs:
            if isinstance(x, int):
                if isinstance(y, int):
                    plain += x * y
                    continue
                x, y = y, x
            if isinstance(y, Ring):
                x, y = x * y, 1
                if isinstance(x, int):
                    plain += x
                    continue
            inserted += len(x.terms)
            for monomial, coefficient in x.terms.items():
                terms[monomial] = terms.get(monomial, 0) + coefficient * y
        if not terms:
            return plain % self.prime
        terms[UNIT] = terms.get(UNIT, 0) + plain
        return self.collect(terms, inserted)

    def collect(self, terms: Terms, inserted: int) -> Value:
        """The value that is a sum of terms, after as many insertions."""
        self.compared += inserted * inserted
        self.spend(inserted)
        prime = self.prime
        reduced = {m: c for m, coefficient in terms.items() if (c := coefficient % prime)}
        if not reduced:
            return 0
        if len(reduced) == 1 and UNIT in reduced:
            return reduced[UNIT]
        return Ring(self, reduced)

    def spend(self, terms: int) -> None:
        """Raises Obstacle where there are too many terms to work with."""
        self.spent += terms
        if self.spent > self._most_terms:
            raise Obstacle("sums of exponentials with too many terms")

    def times(self, left: Monomial, right: Monomial) -> tuple[Monomial, int]:
        """The product of monomials, and the factor that squares of roots leave."""
        exponent = (left[0] + right[0]) % self.prime
        if not left[1]:
            return (exponent, right[1]), 1
        if not right[1]:
            return (exponent, left[1]), 1
        factor, kept = 1, list[int]()
        for generator in sorted(left[1] + right[1]):
            if kept and kept[-1] == generator and generator in self.squares:
                factor = factor * self.squares[generator] % self.prime
                kept.pop()
            else:
                kept.append(generator)
        return (exponent, tuple(kept)), factor

    def inverse_of(self, factor: Ring) -> int:
        """The generator that is the inverse of a normal sum."""
        found = self._inverses.get(factor.key)
        if found is None:
            self.compared += len(self._inverses)
            found = self._inverses[factor.key] = self.generator()
            self.factors[found] = factor
        return found

    def known_inverse(self, factor: Ring) -> int | None:
        return self._inverses.get(factor.key)
