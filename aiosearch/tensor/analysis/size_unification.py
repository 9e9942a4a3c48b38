"""Unification of axis sizes: shape rules say which sizes agree or divide, the others stay free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, pairwise
from math import gcd

from ..errors import ShapeError
from ..sizes import Dim, Powers, Size, product, quotient

_serial = count()


class Unknowns:
    """Solves for sizes while shape rules run: each unknown stands for a number that it had.

    Every equation is solved so that it holds for all values of the unknowns that are left; where
    that cannot be done, the unknowns in it become the numbers that they had.
    """

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.fixed: dict[str, str] = {}
        """Unknowns that became numbers, and why."""
        self._hints: dict[str, str] = {}
        self._solved: dict[str, Dim] = {}
        self._order: dict[str, tuple[int, ...]] = {}
        self._run = next(_serial)

    def fresh(self, hint: str, value: int, order: tuple[int, ...] | None = None) -> Dim:
        """A new unknown for a number; nought and one are never unknown."""
        if value <= 1:
            return value
        index = len(self._hints)
        name = f"{hint}%{self._run}.{index}"
        self.values[name], self._hints[name] = value, hint
        self._order[name] = (index,) if order is None else order
        return Size.named(name)

    def names(self) -> dict[str, str]:
        """A readable name for each unknown that is left."""
        found: dict[str, str] = {}
        taken: set[str] = set()
        for name, hint in self._hints.items():
            if name in self._solved:
                continue
            pretty, number = hint, 1
            while pretty in taken:
                number += 1
                pretty = f"{hint}_{number}"
            taken.add(pretty)
            found[name] = pretty
        return found

    def hint(self, name: str) -> str:
        return self._hints[name]

    def reason(self, dim: Dim) -> str:
        """Why a size is a number."""
        if isinstance(dim, int):
            return "a size of nought or one stays"
        first = min(dim.names, key=self._order.__getitem__)
        return self.fixed.get(first) or self.reason(self._solved[first])

    def resolve(self, dim: Dim) -> Dim:
        """A size in the unknowns that are left."""
        while isinstance(dim, Size) and any(name in self._solved for name in dim.names):
            dim = dim.at(self._solved)
        return dim

    def value(self, dim: Dim) -> int:
        found = dim if isinstance(dim, int) else dim.at(self.values)
        assert isinstance(found, int)
        return found

    def number(self, dim: Dim, why: str) -> int:
        self._fix(self.resolve(dim), why)
        return self.value(dim)

    def same(self, a: Dim, b: Dim, why: str) -> Dim:
        if self.value(a) != self.value(b):
            raise ShapeError(f"{why}: {self.value(a)} is not {self.value(b)}")
        self._equate(a, b, why)
        return self.resolve(a)

    def over(self, a: Dim, b: Dim, why: str) -> Dim:
        a, b = self.resolve(a), self.resolve(b)
        found = quotient(a, b)
        if found is not None:
            return found
        whole, part = self.value(a), self.value(b)
        if part == 0 or whole % part:
            raise ShapeError(f"{why}: {part} does not divide {whole}")
        if isinstance(a, Size) and len(a.terms) > 1:
            return self._sum_over(a, b, why)
        rest = self.fresh(self._base(a), whole // part)
        self._equate(a, b * rest, why)
        return self.resolve(rest)

    def ordered(self, dims: Sequence[Dim], why: str) -> tuple[Dim, ...]:
        values = [self.value(dim) for dim in dims]
        if any(b < a for a, b in pairwise((0, *values))):
            raise ShapeError(f"{why}: {', '.join(map(str, values))} is no rising order")
        if values[0] == 0 and values[1] == values[-1]:
            self._equate(dims[1], dims[-1], why)
        else:
            unit = gcd(*values)
            chunk = self.fresh(self._base(dims[-1]), unit)
            for dim, value in zip(dims, values, strict=True):
                self._equate(dim, chunk * (value // unit if unit else 0), why)
        return tuple(map(self.resolve, dims))

    def _base(self, dim: Dim) -> str:
        """What to call a part of a size."""
        names = () if isinstance(dim, int) else sorted(dim.names, key=self._order.__getitem__)
        return _part(self._hints[names[-1]]) if names else "part"

    def _fix(self, dim: Dim, why: str) -> None:
        for name in () if isinstance(dim, int) else dim.names:
            self._solve(name, self.values[name], why)

    def _solve(self, name: str, dim: Dim, why: str) -> None:
        self._solved[name] = dim
        if isinstance(dim, int):
            self.fixed[name] = why

    def _equate(self, a: Dim, b: Dim, why: str) -> None:
        """Solves one equation, step by step, until both sides are one polynomial."""
        while True:
            left, right = _sides(self.resolve(a), self.resolve(b))
            if not left.terms and not right.terms:
                return
            if not self._step(left, right, why):
                self._fix(self.resolve(a), why)
                self._fix(self.resolve(b), why)
                return

    def _step(self, left: Size, right: Size, why: str) -> bool:
        """Solves for at least one unknown; False where no way is seen."""
        alone = [name for name in (_alone(left, right), _alone(right, left)) if name]
        if alone:
            name = max(alone, key=self._order.__getitem__)
            other = right if name == _alone(left, right) else left
            self._solve(name, product([other, 1]), why)
            return True
        if left.monomial and right.monomial:
            return self._refine(left.monomial, right.monomial, why)
        return self._match(left, right, why) or self._split(left, right, why)

    def _refine(self, left: tuple[Powers, int], right: tuple[Powers, int], why: str) -> bool:
        """Takes a common factor of an unknown on each side out of both."""
        ours, theirs = self._atoms(left[0]), self._atoms(right[0])
        for one in ours:
            for two in theirs:
                shared = gcd(self.values[one], self.values[two])
                if shared > 1:
                    self._share(one, two, shared, why)
                    return True
        for names, factor in ((ours, right[1]), (theirs, left[1])):
            for name in names:
                shared = gcd(self.values[name], factor)
                if shared > 1:
                    self._solve(name, shared * self._rest(name, shared), why)
                    return True
        return False

    def _share(self, one: str, two: str, shared: int, why: str) -> None:
        common: Dim = 0
        for name in (one, two):
            if self.values[name] == shared:
                common = common or Size.named(name)
        if not common:
            common = self.fresh(_part(self._hints[one]), shared, (*self._order[one], 0))
        for name in (one, two):
            if common != Size.named(name):
                self._solve(name, common * self._rest(name, shared), why)

    def _rest(self, name: str, taken: int) -> Dim:
        """What is left of an unknown once a factor is taken out."""
        rest = self.values[name] // taken
        return self.fresh(_part(self._hints[name]), rest, (*self._order[name], 1))

    def _match(self, left: Size, right: Size, why: str) -> bool:
        """Sums of as many terms with the same values are taken to agree term by term."""
        ours = sorted(map(_single, left.terms), key=self.value)
        theirs = sorted(map(_single, right.terms), key=self.value)
        if list(map(self.value, ours)) != list(map(self.value, theirs)):
            return False
        for one, two in zip(ours, theirs, strict=True):
            self._equate(one, two, why)
        return True

    def _split(self, left: Size, right: Size, why: str) -> bool:
        """A sum that is a product: every term has the product's smaller factors."""
        total, whole = (left, right) if right.monomial else (right, left)
        if not whole.monomial or not whole.names:
            return False
        largest = max(whole.names, key=self.values.__getitem__)
        factor = quotient(whole, Size.named(largest))
        if factor is None or any(self.value(_single(t)) % self.value(factor) for t in total.terms):
            return False
        part = self._sum_over(total, factor, why)
        self._equate(Size.named(largest), part, why)
        return True

    def _sum_over(self, total: Size, part: Dim, why: str) -> Dim:
        if any(self.value(_single(term)) % self.value(part) for term in total.terms):
            self._fix(total, why)
            self._fix(self.resolve(part), why)
            return self.value(total) // self.value(part)
        found: Dim = 0
        for term in total.terms:
            found = found + self.over(_single(term), part, why)
        return self.resolve(found)

    def _atoms(self, powers: Powers) -> list[str]:
        """The unknowns of a product, the outermost part of an axis first."""
        return sorted((name for name, _ in powers), key=self._order.__getitem__)


def _part(name: str) -> str:
    return name if name.endswith("_part") else f"{name}_part"


def _single(term: tuple[Powers, int]) -> Size:
    return Size(dict([term]))


def _sides(a: Dim, b: Dim) -> tuple[Size, Size]:
    """The terms of `a - b` that are added and that are taken away, without common factors."""
    difference = a - b
    if isinstance(difference, int):
        return Size({(): max(difference, 0)}), Size({(): max(-difference, 0)})
    terms = difference.terms
    powers, factor = _common(terms)
    terms = tuple((_less(own, powers), n // factor) for own, n in terms)
    return Size({p: n for p, n in terms if n > 0}), Size({p: -n for p, n in terms if n < 0})


def _common(terms: Iterable[tuple[Powers, int]]) -> tuple[dict[str, int], int]:
    """The largest product that divides every term."""
    first, *others = terms
    powers, factor = dict(first[0]), abs(first[1])
    for own, n in others:
        held = dict(own)
        powers = {name: min(power, held.get(name, 0)) for name, power in powers.items()}
        factor = gcd(factor, n)
    return powers, factor


def _less(own: Powers, powers: dict[str, int]) -> Powers:
    left = ((name, power - powers.get(name, 0)) for name, power in own)
    return tuple((name, power) for name, power in left if power)


def _alone(side: Size, other: Size) -> str | None:
    """The unknown that is all of one side and no part of the other."""
    if len(side.terms) != 1:
        return None
    powers, factor = side.terms[0]
    if factor != 1 or len(powers) != 1 or powers[0][1] != 1 or powers[0][0] in other.names:
        return None
    return powers[0][0]
