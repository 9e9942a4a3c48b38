"""A prime field extended by symbols, roots, inverses and sums of exponentials.

Problem: `exp` and `sqrt` are no functions of a finite field, yet `exp(x)·exp(y)` has to equal
`exp(x + y)`, and `sqrt(x)·sqrt(x)` has to equal x. So these values are formal: elements of a group
ring over the field.

Values. Most are plain integers below the prime. Where a program takes an exponential, a root, a
logarithm, or divides by a sum of such, the value is an `ExponentialSum`: coefficients times
monomials. A monomial is an exponent and sorted generators. The exponent is a field element, and
exponents add where monomials multiply. Exponentials of different exponents are linearly
independent, so that equality of the sums is equality of the functions. A generator is a root, whose
square is known (`squares`); the inverse of a sum (`factors`); or free, such as a logarithm.

Example, prime 101, with s the root of 5: `(2·exp(3) + s)²` is `{(6, ()): 4, (3, (s,)): 4, (0, ()):
5}`, that is 4·exp(6) + 4·exp(3)·s + 5. The generator pair (s, s) became the coefficient 5.

Inverses of sums are generators, so that fractions over one denominator add without being multiplied
up: a softmax of n elements has n terms over one generator. Only a comparison clears them
(`ExponentialSum.cleared`).

An exponent, a radicand or an argument is itself a value; its `key` stands for it there, a field
element that adds as values add. Taking the key for the value never makes different values equal but
by chance, and these chances are counted in `compared`; it may keep equal values apart, and then
`doubts` says why.

Cost: a product takes as many steps as both sums have terms multiplied; `spend` gives up beyond
`MOST_TERMS`. See docs/why/verdicts.md.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

Monomial: TypeAlias = tuple[int, tuple[int, ...]]
"""An exponent, and the generators of the product in ascending order.

`(3, (7, 7))` is exp(3)·g7².
"""
Terms: TypeAlias = dict[Monomial, int]
"""The coefficient of each `Monomial`; zero coefficients occur only before `collect`."""
Value: TypeAlias = "int | ExponentialSum"
"""An element of the extended field: a plain element, or a sum that is none."""

UNIT: Monomial = (0, ())
"""The `Monomial` of a plain field element."""


class ExponentialSum:
    """A sum of terms of one `ExtensionField`: never empty, and never a plain field element."""

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
        """The product; a sum and its inverse cancel before anything is multiplied out."""
        if isinstance(other, int):
            factor = other % self.field.prime
            if factor == 1:
                return self
            return self.field.collect({m: c * factor for m, c in self.terms.items()}, 0)
        # w·exp(a)/Σ times Σ is the common case (a weighted mean): found here, it costs one pass.
        for cancelled in (self._cancel(other), other._cancel(self)):
            if cancelled is not None:
                return cancelled
        return self._product(other)

    __rmul__ = __mul__

    def __mod__(self, prime: int) -> ExponentialSum:
        """Itself, so that `array % prime` reduces arrays of both kinds of `IrValue` at once."""
        return self

    def __repr__(self) -> str:
        return f"Ring({self.terms})"

    def _product(self, factor_sum: ExponentialSum) -> Value:
        """Every term times every term, without a look for inverses that cancel."""
        field, terms = self.field, Terms()
        field.spend(len(self.terms) * len(factor_sum.terms))
        for left, c in self.terms.items():
            for right, d in factor_sum.terms.items():
                monomial, factor = field.times(left, right)
                terms[monomial] = terms.get(monomial, 0) + c * d * factor
        return field.collect(terms, len(self.terms) * len(factor_sum.terms))

    def _cancel(self, divisor: ExponentialSum) -> Value | None:
        """The product with a sum whose inverse is a generator in here, or None if there is none."""
        # A single term has an exact inverse of its own, never a generator of `factors`.
        if len(divisor.terms) == 1 or not self.inverses:
            return None
        coefficient, exponent, factor = divisor.normal
        inverse = self.field.known_inverse(factor)
        if inverse not in self.inverses:
            return None
        free, untouched = Terms(), Terms()
        for (power, generators), c in self.terms.items():
            if inverse in generators:
                at = generators.index(inverse)
                # The divisor is coefficient·exp(exponent)·factor: the first two stay, the factor
                # meets its inverse.
                left = (
                    (power + exponent) % self.field.prime,
                    generators[:at] + generators[at + 1 :],
                )
                free[left] = free.get(left, 0) + c * coefficient
            else:
                untouched[power, generators] = c
        cancelled = self.field.collect(free, len(free))
        return (
            cancelled + ExponentialSum(self.field, untouched)._product(divisor)
            if untouched
            else cancelled
        )

    @property
    def inverses(self) -> Counter[int]:
        """Generators in here that are inverses, with the highest power of each in any term."""
        if self._inverses is None:
            self._inverses = Counter()
            factors = self.field.factors
            for _, generators in self.terms:
                if generators and factors:
                    # |= keeps the maximum of each count: the power needed to clear the worst term.
                    self._inverses |= Counter(g for g in generators if g in factors)
        return self._inverses

    @property
    def key(self) -> int:
        """A field element that is linear in the value: `symbol` of each monomial, weighted."""
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
        """Coefficient, exponent and sum whose product this is; multiples share the `normal` sum.

        `6·exp(4) + 2·exp(8)` has the mean exponent 6: it is 2·exp(6) times 3·exp(-2) + exp(2). The
        mean moves as the exponents are moved together, so that the sum does not depend on the
        exponential factor.
        """
        if self._normal is None:
            prime, terms = self.field.prime, self.terms
            self.field.widest = max(self.field.widest, len(terms))
            if len(terms) % prime:
                mean = sum(exponent for exponent, _ in terms) * pow(len(terms), -1, prime) % prime
            else:
                mean = 0
                # The mean needs 1/n, which does not exist where the prime divides n. Drawn primes
                # are larger than any sum; a `prime` that a caller passes need not be.
                self.field.doubts.add("as many terms as the prime")
            moved = {((e - mean) % prime, generators): c for (e, generators), c in terms.items()}
            # Scaling by the coefficient of the least monomial makes multiples of a sum identical.
            lead = moved[min(moved)]
            scale = pow(lead, -1, prime)
            scaled = {monomial: c * scale % prime for monomial, c in moved.items()}
            self._normal = (lead, mean, ExponentialSum(self.field, scaled))
        return self._normal

    def cleared(self) -> tuple[Value, list[int]]:
        """The numerator without inverses, and the generators (inverses of sums) that it is over."""
        inverses, total = self.inverses, list[tuple[Value, Value]]()
        for (exponent, generators), coefficient in self.terms.items():
            # A term that lacks an inverse is multiplied by its sum: a/S + b = (a + b·S)/S.
            missing = inverses - Counter(generators)
            plain = tuple(g for g in generators if g not in inverses)
            term: Value = self.field.collect({(exponent, plain): coefficient}, 0)
            for generator in missing.elements():
                factor = self.field.factors[generator]
                term = factor._product(term) if isinstance(term, ExponentialSum) else factor * term
            total.append((term, 1))
        return self.field.dot(total), sorted(inverses.elements())

    @property
    def inverse(self) -> Value:
        """`1/self`, computed once; raises ZeroDivisionError."""
        if self._inverse is None:
            self._inverse = self._find_inverse()
        return self._inverse

    def _find_inverse(self) -> Value:
        """The inverse of a term, of a fraction, or of a sum: the last is a new generator."""
        if len(self.terms) == 1:
            return self._inverse_of_term()
        if self.inverses:
            # 1/(above/below) = below/above; `above` has no inverses, so this recursion ends.
            above, below = self.cleared()
            quotient = self.field.invert(above)
            for generator in below:
                quotient = quotient * self.field.factors[generator]
            return quotient
        coefficient, exponent, factor = self.normal
        prime = self.field.prime
        monomial = (-exponent % prime, (self.field.inverse_of(factor),))
        return ExponentialSum(self.field, {monomial: pow(coefficient, -1, prime)})

    def _inverse_of_term(self) -> Value:
        """The inverse of a single term: `1/s = s/s²` for a root, a generator for a free one."""
        field = self.field
        (((exponent, generators), coefficient),) = self.terms.items()
        start: Terms = {(-exponent % field.prime, ()): pow(coefficient, -1, field.prime)}
        product = field.collect(start, 1)
        for generator in generators:
            alone = ExponentialSum(field, {(0, (generator,)): 1})
            if generator in field.squares:
                product = product * (alone * pow(field.squares[generator], -1, field.prime))
            elif generator in field.factors:
                product = product * field.factors[generator]
            else:
                product = product * ExponentialSum(field, {(0, (field.inverse_of(alone),)): 1})
        return product


MOST_TERMS = 400_000
"""Terms that may be put together before a comparison is given up: about a second of work."""
_LOOKS = 512
"""Terms between two looks at the clock."""


class FieldObstacle(Exception):
    """What keeps a program from being evaluated in a field; `FieldEvidence.reason` shows it."""


class ExtensionField:
    """A `prime`, and the generators and symbols met so far; values of two fields never meet.

    `seed` selects the symbols: two fields of the same seed and prime give the same elements for the
    same names.
    """

    def __init__(
        self,
        prime: int,
        seed: bytes = b"",
        most_terms: int = MOST_TERMS,
        until: float = math.inf,
    ) -> None:
        self.prime = prime
        self._most_terms = most_terms
        self._until = until
        """When the time is over, by `time.monotonic`."""
        self._looked = 0
        self.squares: dict[int, int] = {}
        """The radicand of each generator that is a root."""
        self.factors: dict[int, ExponentialSum] = {}
        """The sum that each generator in here is the inverse of."""
        self.compared = 0
        """Upper bound on the pairs of different things that may be equal by chance.

        See `fields`.
        """
        self.spent = 0
        """Terms that were put together; `spend` compares it with the limit."""
        self.widest = 1
        """The most terms of a sum whose exponents `normal` moved by their mean."""
        self.doubts: set[str] = set()
        """Why values that are kept apart might be equal: a difference is then no refutation."""
        self._seed = seed
        self._count = 0
        self._names: dict[tuple[object, ...], int] = {}
        self._inverses: dict[int, int] = {}
        self._shadows: dict[int, int | None] = {}

    def generator(self) -> int:
        """A new generator, which no value holds yet."""
        self._count += 1
        return self._count

    def symbol(self, *name: object) -> int:
        """A uniform element that depends on `name`, seed and prime alone."""
        element = self._names.get(name)
        if element is None:
            # A new symbol may collide with each earlier one: that many pairs, each with chance
            # 1/prime.
            self.compared += len(self._names)
            # Keyed hashing keeps symbols independent of the inputs, which are drawn from the same
            # seed. 32 bytes leave a bias below 2^-128 after the remainder.
            text = repr(name).encode()
            digest = hashlib.blake2b(text, key=self._seed, digest_size=32).digest()
            element = self._names[name] = int.from_bytes(digest, "little") % self.prime
        return element

    def key(self, value: Value) -> int:
        """The field element that stands for `value` in an exponent or argument.

        Linear in `value`.
        """
        if isinstance(value, int):
            return value
        # Keys are linear in terms, not in fractions: 1/(a+b) and (a+b)/(a+b)² have different keys
        # although they are equal.
        if value.inverses:
            self.doubts.add("a quotient of sums of exponentials inside a function")
        if any(g in self.squares for _, generators in value.terms for g in generators):
            # √x·√y and √(xy) may be equal as functions and have different monomials.
            self.doubts.add("a root inside a function")
        return value.key

    def invert(self, value: Value) -> Value:
        """`1/value`; raises ZeroDivisionError where that is zero."""
        if isinstance(value, int):
            if not value:
                raise ZeroDivisionError
            return pow(value, -1, self.prime)
        return value.inverse

    def equal(self, x: Value, y: Value) -> bool:
        """Whether two values are equal; `shadow` decides most unequal pairs at small cost."""
        if isinstance(x, int) and isinstance(y, int):
            self.compared += 1
            return x == y
        # Exponents forgotten, the group ring maps onto the field: a ring homomorphism, so unequal
        # images prove the values unequal, without multiplying out.
        ours, theirs = self.shadow(x), self.shadow(y)
        if ours is not None and theirs is not None and ours != theirs:
            return False
        return self.is_zero(x - y)

    def shadow(self, value: Value) -> int | None:
        """The image of `value` where all exponentials are one: equal values have equal shadows.

        None where a root or a division by zero is among it. A shadow is linear in the terms, where
        clearing denominators multiplies sums out.
        """
        if isinstance(value, int):
            return value
        total = 0
        for (_, generators), coefficient in value.terms.items():
            for generator in generators:
                image = self._shadow_of(generator)
                if image is None:
                    return None
                coefficient = coefficient * image % self.prime
            total += coefficient
        return total % self.prime

    def _shadow_of(self, generator: int) -> int | None:
        """The image of one `generator`, computed once."""
        if generator not in self._shadows:
            image: int | None = None
            if generator in self.factors:
                below = self.shadow(self.factors[generator])
                # The homomorphism is not defined where a denominator maps to zero; the exact
                # comparison decides.
                image = pow(below, -1, self.prime) if below else None
            elif generator not in self.squares:
                image = self.symbol("shadow", generator)
            self._shadows[generator] = image
        return self._shadows[generator]

    def is_zero(self, value: Value) -> bool:
        """Whether `value` is zero after clearing its denominators."""
        if isinstance(value, ExponentialSum) and value.inverses:
            value, _ = value.cleared()
        return value == 0

    def total(self, values: Iterable[Value]) -> Value:
        """The sum of `values`."""
        return self.dot((value, 1) for value in values)

    def dot(self, pairs: Iterable[tuple[Value, Value]]) -> Value:
        """The sum of products `x·y`, collected once."""
        # Integers are summed apart: they are most of the products, and need no dictionary.
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
        """The value with these `terms`, reduced, after `inserted` insertions into them."""
        # Each pair of monomials that were put together might have been equal by chance.
        self.compared += inserted * inserted
        self.spend(inserted)
        prime = self.prime
        reduced = {m: c for m, coefficient in terms.items() if (c := coefficient % prime)}
        if not reduced:
            return 0
        # Keeps the invariant of `ExponentialSum`: a plain element is always an int.
        if len(reduced) == 1 and UNIT in reduced:
            return reduced[UNIT]
        return ExponentialSum(self, reduced)

    def spend(self, terms: int) -> None:
        """Raises `FieldObstacle` where there are too many terms to work with."""
        self.spent += terms
        if self.spent > self._most_terms:
            raise FieldObstacle("sums of exponentials with too many terms")
        # The clock is looked at now and then: a look costs as much as a few terms.
        if self.spent - self._looked >= _LOOKS:
            self._looked = self.spent
            if time.monotonic() > self._until:
                raise FieldObstacle("the time for it is over")

    def times(self, left: Monomial, right: Monomial) -> tuple[Monomial, int]:
        """The product of monomials, and the factor that squares of roots leave."""
        exponent = (left[0] + right[0]) % self.prime
        if not left[1]:
            return (exponent, right[1]), 1
        if not right[1]:
            return (exponent, left[1]), 1
        factor, generators = 1, list[int]()
        for generator in sorted(left[1] + right[1]):
            # Sorted, equal generators are neighbours, and a pair of equal roots becomes its
            # radicand.
            if generators and generators[-1] == generator and generator in self.squares:
                factor = factor * self.squares[generator] % self.prime
                generators.pop()
            else:
                generators.append(generator)
        return (exponent, tuple(generators)), factor

    def inverse_of(self, factor: ExponentialSum) -> int:
        """The generator that is the inverse of a `normal` sum."""
        # Equal normal sums have equal keys, so that one denominator gets one generator.
        generator = self._inverses.get(factor.key)
        if generator is None:
            self.compared += len(self._inverses)
            generator = self._inverses[factor.key] = self.generator()
            self.factors[generator] = factor
        return generator

    def known_inverse(self, factor: ExponentialSum) -> int | None:
        """The generator of `inverse_of` if it exists already."""
        return self._inverses.get(factor.key)
