"""A prime field extended by names, roots, inverses and sums of exponentials.

Most values are plain integers below the prime. Where a program takes an exponential, a root, a
logarithm or divides by a sum of such, the value is a `Ring`: a sum of coefficient times monomial.
A monomial is an exponent and sorted generators. The exponent is a field element, and exponents add
where monomials multiply: exponentials of different exponents are linearly independent, so that
equality of the sums is equality of the functions. A generator is a root, whose square is known; the
inverse of a sum; or a free one, such as a logarithm. Inverses of sums are generators, so that
fractions over one denominator add without being multiplied up; only a comparison clears them.

An exponent, a radicand or an argument is itself a value; its `key` stands for it there, a field
element that adds as values add. Taking the key for the value never makes different values equal
but by chance; it may keep equal ones apart, and then `doubts` says why.

A prime field with what is adjoined to it: names, roots, inverses of sums.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

Monomial: TypeAlias = tuple[int, tuple[int, ...]]
Terms: TypeAlias = dict[Monomial, int]
Value: TypeAlias = "int | ExponentialSum"

UNIT: Monomial = (0, ())


class ExponentialSum:
    """A sum of terms: never empty, and never a plain field element."""

    __slots__ = ("_inverse", "_inverses", "_key", "_normal", "field", "terms")

    def __init__(self, field: ExtensionField, terms: Terms) -> None:
        self.field = field
        self.terms = terms
        self._key: int | None = None
        self._inverse: Value | None = None
        self._inverses: Counter[int] | None = None
        self._normal: tuple[int, int, ExponentialSum] | None = None

    def __add__(self, other: Value) -> Value:
        return self.field.dot(((self, 1), (other, 1)))

    __radd__ = __add__

    def __neg__(self) -> Value:
        return self * -1

    def __sub__(self, other: Value) -> Value:
        return self.field.dot(((self, 1), (other, -1)))

    def __rsub__(self, other: Value) -> Value:
        return self.field.dot(((self, -1), (other, 1)))

    def __mul__(self, other: Value) -> Value:
        if isinstance(other, int):
            factor = other % self.field.prime
            if factor == 1:
                return self
            return self.field.collect({m: c * factor for m, c in self.terms.items()}, 0)
        for found in (self._cancel(other), other._cancel(self)):
            if found is not None:
                return found
        return self._product(other)

    __rmul__ = __mul__

    def __mod__(self, prime: int) -> ExponentialSum:
        """Itself: what an array of both kinds of values needs to be reduced at once."""
        return self

    def __repr__(self) -> str:
        return f"Ring({self.terms})"

    def _product(self, other: ExponentialSum) -> Value:
        field, terms = self.field, Terms()
        field.spend(len(self.terms) * len(other.terms))
        for left, c in self.terms.items():
            for right, d in other.terms.items():
                monomial, factor = field.times(left, right)
                terms[monomial] = terms.get(monomial, 0) + c * d * factor
        return field.collect(terms, len(self.terms) * len(other.terms))

    def _cancel(self, other: ExponentialSum) -> Value | None:
        """The product with a sum whose inverse is in here, or None if that is not so."""
        if len(other.terms) == 1 or not self.inverses:
            return None
        coefficient, exponent, factor = other.normal
        inverse = self.field.known_inverse(factor)
        if inverse not in self.inverses:
            return None
        free, rest = Terms(), Terms()
        for (own, generators), c in self.terms.items():
            if inverse in generators:
                at = generators.index(inverse)
                left = ((own + exponent) % self.field.prime, generators[:at] + generators[at + 1 :])
                free[left] = free.get(left, 0) + c * coefficient
            else:
                rest[own, generators] = c
        found = self.field.collect(free, len(free))
        return found + ExponentialSum(self.field, rest)._product(other) if rest else found

    @property
    def inverses(self) -> Counter[int]:
        """The inverses of sums in here, with the highest power of each in any term."""
        if self._inverses is None:
            self._inverses = Counter()
            known = self.field.factors
            for _, generators in self.terms:
                if generators and known:
                    self._inverses |= Counter(g for g in generators if g in known)
        return self._inverses

    @property
    def key(self) -> int:
        if self._key is None:
            field = self.field
            total = sum(
                c * (1 if monomial == UNIT else field.symbol("key", monomial))
                for monomial, c in self.terms.items()
            )
            self._key = total % field.prime
        return self._key

    @property
    def normal(self) -> tuple[int, int, ExponentialSum]:
        """Coefficient, exponent and sum whose product this is; multiples share the sum.

        The mean of the exponents is taken out, which moves as they are moved together.
        """
        if self._normal is None:
            prime, terms = self.field.prime, self.terms
            self.field.widest = max(self.field.widest, len(terms))
            if len(terms) % prime:
                mean = sum(exponent for exponent, _ in terms) * pow(len(terms), -1, prime) % prime
            else:
                mean = 0
                self.field.doubts.add("as many terms as the prime")
            moved = {((e - mean) % prime, generators): c for (e, generators), c in terms.items()}
            lead = moved[min(moved)]
            scale = pow(lead, -1, prime)
            scaled = {monomial: c * scale % prime for monomial, c in moved.items()}
            self._normal = (lead, mean, ExponentialSum(self.field, scaled))
        return self._normal

    def cleared(self) -> tuple[Value, list[int]]:
        """This as a value without inverses, over the sums that some generators are inverses of."""
        inverses, total = self.inverses, list[tuple[Value, Value]]()
        for (exponent, generators), coefficient in self.terms.items():
            missing = inverses - Counter(generators)
            kept = tuple(g for g in generators if g not in inverses)
            term: Value = self.field.collect({(exponent, kept): coefficient}, 0)
            for generator in missing.elements():
                factor = self.field.factors[generator]
                term = factor._product(term) if isinstance(term, ExponentialSum) else factor * term
            total.append((term, 1))
        return self.field.dot(total), sorted(inverses.elements())

    @property
    def inverse(self) -> Value:
        """One over this; raises ZeroDivisionError."""
        if self._inverse is None:
            self._inverse = self._find_inverse()
        return self._inverse

    def _find_inverse(self) -> Value:
        if len(self.terms) == 1:
            return self._inverse_of_term()
        if self.inverses:
            above, below = self.cleared()
            found = self.field.invert(above)
            for generator in below:
                found = found * self.field.factors[generator]
            return found
        coefficient, exponent, factor = self.normal
        prime = self.field.prime
        monomial = (-exponent % prime, (self.field.inverse_of(factor),))
        return ExponentialSum(self.field, {monomial: pow(coefficient, -1, prime)})

    def _inverse_of_term(self) -> Value:
        """Of one term: a root is its own inverse but for its square."""
        field = self.field
        (((exponent, generators), coefficient),) = self.terms.items()
        start: Terms = {(-exponent % field.prime, ()): pow(coefficient, -1, field.prime)}
        found = field.collect(start, 1)
        for generator in generators:
            alone = ExponentialSum(field, {(0, (generator,)): 1})
            if generator in field.squares:
                found = found * (alone * pow(field.squares[generator], -1, field.prime))
            elif generator in field.factors:
                found = found * field.factors[generator]
            else:
                found = found * ExponentialSum(field, {(0, (field.inverse_of(alone),)): 1})
        return found


MOST_TERMS = 400_000
"""How many terms are put together before a comparison is given up: about a second's work."""


class FieldObstacle(Exception):
    """What stands in the way of evaluating a program in a field."""


class ExtensionField:
    """A prime, and the generators and names met so far. Values of one field meet no others."""

    def __init__(self, prime: int, seed: bytes = b"", most_terms: int = MOST_TERMS) -> None:
        self.prime = prime
        self._most_terms = most_terms
        self.squares: dict[int, int] = {}
        """For the generators that are roots, what they are roots of."""
        self.factors: dict[int, ExponentialSum] = {}
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
        if isinstance(value, ExponentialSum) and value.inverses:
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
            if isinstance(y, ExponentialSum):
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
        return ExponentialSum(self, reduced)

    def spend(self, terms: int) -> None:
        """Raises Obstacle where there are too many terms to work with."""
        self.spent += terms
        if self.spent > self._most_terms:
            raise FieldObstacle("sums of exponentials with too many terms")

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

    def inverse_of(self, factor: ExponentialSum) -> int:
        """The generator that is the inverse of a normal sum."""
        found = self._inverses.get(factor.key)
        if found is None:
            self.compared += len(self._inverses)
            found = self._inverses[factor.key] = self.generator()
            self.factors[found] = factor
        return found

    def known_inverse(self, factor: ExponentialSum) -> int | None:
        return self._inverses.get(factor.key)
