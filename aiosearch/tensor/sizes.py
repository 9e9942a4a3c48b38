"""Sizes of axes: integers, or polynomials in named sizes when a program stands for all shapes.

`Size.named("n") * 2 + 1` prints as `1 + 2·n`; `quotient` divides where that is exact for every
value of n.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from .errors import ShapeError

Powers: TypeAlias = tuple[tuple[str, int], ...]
"""Names with their exponents, sorted by name."""


class Divisor(str):
    """The name of a size that divides whatever it has to divide, as its owner guarantees."""


class Size:
    """A polynomial with integer coefficients in positive integer unknowns. Immutable.

    Only a `Divisor` has negative powers.
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Powers, int]) -> None:
        # Sorted terms without zeros are canonical: equal polynomials have equal tuples and hashes.
        self.terms = tuple(sorted((powers, n) for powers, n in terms.items() if n))
        self._hash = hash(self.terms)

    @classmethod
    def named(cls, name: str) -> Size:
        """The unknown of this name."""
        return cls({((name, 1),): 1})

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self.terms == (((), other),) if other else not self.terms
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Dim) -> Dim:
        return simple(_sum(self, _size(other)))

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return simple(_sum(self, _times(_size(other), _size(-1))))

    def __rsub__(self, other: Dim) -> Dim:
        return simple(_sum(_size(other), _times(self, _size(-1))))

    def __mul__(self, other: Dim) -> Dim:
        return simple(_times(self, _size(other)))

    __rmul__ = __mul__

    @property
    def monomial(self) -> tuple[Powers, int] | None:
        """The only term, where there is just one."""
        return self.terms[0] if len(self.terms) == 1 else None

    @property
    def names(self) -> frozenset[str]:
        """The unknowns that occur."""
        return frozenset(name for powers, _ in self.terms for name, _ in powers)

    def at(self, values: Mapping[str, Dim]) -> Dim:
        """Substitutes values for names; names without one stay.

        Raises ShapeError where the value of a `Divisor` does not divide.
        """
        total: Dim = 0
        for powers, factor in self.terms:
            term: Dim = factor
            # Multiplies before it divides, so that n/d·d is exact.
            for name, power in sorted(powers, key=lambda item: item[1] < 0):
                value = values.get(name)
                base = Size.named(name) if value is None else value
                for _ in range(power):
                    term = term * base
                for _ in range(-power):
                    term = self._over(term, base)
            total = total + term
        return total

    def _over(self, term: Dim, base: Dim) -> Dim:
        exact = quotient(term, base)
        if exact is None:
            raise ShapeError(f"{self}: {base} does not divide {term}")
        return exact

    def __str__(self) -> str:
        text = " + ".join(_term_text(powers, n) for powers, n in self.terms)
        return text.replace("+ -", "- ") or "0"

    __repr__ = __str__


Dim: TypeAlias = "int | Size"
"""The size of an axis."""


def simple(size: Size) -> Dim:
    """The integer, if `size` is constant."""
    if not size.terms:
        return 0
    if len(size.terms) == 1 and not size.terms[0][0]:
        return size.terms[0][1]
    return size


def product(dims: Iterable[Dim]) -> Dim:
    """The product of sizes."""
    result: Dim = 1
    for dim in dims:
        result = result * dim
    return result


def quotient(a: Dim, b: Dim) -> Dim | None:
    """`a / b` where it is exact for every value of the names, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    if a == b:
        return 1
    divisor = _size(b)
    names = sorted(_size(a).names | divisor.names)
    result, left = Size({}), _size(a)
    # Long division needs an order of terms, which negative powers do not have.
    if divisor.monomial is None and any(isinstance(name, Divisor) for name in divisor.names):
        return None
    # Long division: leading terms cancel one by one. It ends because the order is preserved by
    # products.
    while left.terms:
        part = _over(_leading(left, names), _leading(divisor, names)) if divisor.terms else None
        if part is None:
            return None
        result = _sum(result, part)
        left = _sum(left, _times(part, _times(divisor, _size(-1))))
    return simple(result)


def _leading(size: Size, names: list[str]) -> tuple[Powers, int]:
    """The first term in an order that products preserve: lexicographic by powers."""

    def rank(term: tuple[Powers, int]) -> list[int]:
        powers = dict(term[0])
        return [powers.get(name, 0) for name in names]

    return max(size.terms, key=rank)


def _over(term: tuple[Powers, int], divisor: tuple[Powers, int]) -> Size | None:
    """One term divided by another; None where that is not exact."""
    left = dict(term[0])
    for name, power in divisor[0]:
        left[name] = left.get(name, 0) - power
        # A `Divisor` may stay in the denominator, since it divides by agreement.
        if left[name] < 0 and not isinstance(name, Divisor):
            return None
    if term[1] % divisor[1]:
        return None
    powers = tuple(sorted((name, power) for name, power in left.items() if power))
    return Size({powers: term[1] // divisor[1]})


def _size(dim: Dim) -> Size:
    return dim if isinstance(dim, Size) else Size({(): dim})


def _sum(a: Size, b: Size) -> Size:
    terms = dict(a.terms)
    for powers, n in b.terms:
        terms[powers] = terms.get(powers, 0) + n
    return Size(terms)


def _times(a: Size, b: Size) -> Size:
    terms: dict[Powers, int] = {}
    for left, m in a.terms:
        for right, n in b.terms:
            powers = dict(left)
            for name, power in right:
                powers[name] = powers.get(name, 0) + power
            key = tuple(sorted(item for item in powers.items() if item[1]))
            terms[key] = terms.get(key, 0) + m * n
    return Size(terms)


def _term_text(powers: Powers, factor: int) -> str:
    parts = [name if power == 1 else f"{name}^{power}" for name, power in powers]
    if factor != 1 or not parts:
        parts.insert(0, str(factor))
    return "·".join(parts)
