"""Values of the field layer: elements of a prime field, and sums of exponentials over it.

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
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .field import Field

Monomial: TypeAlias = tuple[int, tuple[int, ...]]
Terms: TypeAlias = dict[Monomial, int]
Value: TypeAlias = "int | Ring"

UNIT: Monomial = (0, ())


class Ring:
    """A sum of terms: never empty, and never a plain field element."""

    __slots__ = ("_inverse", "_inverses", "_key", "_normal", "field", "terms")

    def __init__(self, field: Field, terms: Terms) -> None:
        self.field = field
        self.terms = terms
        self._key: int | None = None
        self._inverse: Value | None = None
        self._inverses: Counter[int] | None = None
        self._normal: tuple[int, int, Ring] | None = None

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

    def __mod__(self, prime: int) -> Ring:
        """Itself: what an array of both kinds of values needs to be reduced at once."""
        return self

    def __repr__(self) -> str:
        return f"Ring({self.terms})"

    def _product(self, other: Ring) -> Value:
        field, terms = self.field, Terms()
        field.spend(len(self.terms) * len(other.terms))
        for left, c in self.terms.items():
            for right, d in other.terms.items():
                monomial, factor = field.times(left, right)
                terms[monomial] = terms.get(monomial, 0) + c * d * factor
        return field.collect(terms, len(self.terms) * len(other.terms))

    def _cancel(self, other: Ring) -> Value | None:
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
        return found + Ring(self.field, rest)._product(other) if rest else found

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
    def normal(self) -> tuple[int, int, Ring]:
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
            self._normal = (lead, mean, Ring(self.field, scaled))
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
                term = factor._product(term) if isinstance(term, Ring) else factor * term
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
        return Ring(self.field, {monomial: pow(coefficient, -1, prime)})

    def _inverse_of_term(self) -> Value:
        """Of one term: a root is its own inverse but for its square."""
        field = self.field
        (((exponent, generators), coefficient),) = self.terms.items()
        start: Terms = {(-exponent % field.prime, ()): pow(coefficient, -1, field.prime)}
        found = field.collect(start, 1)
        for generator in generators:
            alone = Ring(field, {(0, (generator,)): 1})
            if generator in field.squares:
                found = found * (alone * pow(field.squares[generator], -1, field.prime))
            elif generator in field.factors:
                found = found * field.factors[generator]
            else:
                found = found * Ring(field, {(0, (field.inverse_of(alone),)): 1})
        return found
