"""Unification of axis sizes: shape rules say which sizes agree or divide, and all others stay free.

Problem: shape rules state equations between sizes: `same(a, b)`, `a = b·c` for an exact division,
an order for slices. One solution is known, the numbers of the concrete program; a general one is
sought, in unknowns that may take any value.

Method: equations are solved as they come, by substitution. Where one side is a single unknown, it
is replaced by the other side. Where both are products, a common factor of two unknowns' numbers
becomes an unknown of its own (`_refine`): from a·b = c·d with a = 6 and c = 4, a factor p = 2 is
taken out of both, a = p·a' and c = p·c', and a'·b = c'·d is left. Sums are matched term by term
(`_match`), or divided by a common factor (`_split`). Where no step applies, the unknowns of the
equation become the numbers that they had.

Example: a reshape of [n] with n = 6 to [2, 3] states n = p·q; n is replaced by p·q, with p = 2 and
q = 3 free.

Invariant: `values` satisfies every equation at any time, and the general solution includes it.
Cost: each step removes an unknown, or a factor from both sides, so that an equation takes few
steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, pairwise
from math import gcd

from ..errors import ShapeError
from ..sizes import Dim, Powers, Size, product, quotient

_serial = count()


class Unknowns:
    """The `Dimensions` that solves for sizes while shape rules run: each unknown has a number.

    Every equation is solved so that it holds for all values of the unknowns that are left; where
    that cannot be done, the unknowns in it become the numbers that they had.
    """

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        """The number of each unknown in the concrete program."""
        self.fixed: dict[str, str] = {}
        """Unknowns that became numbers, and why."""
        self._hints: dict[str, str] = {}
        self._solved: dict[str, Dim] = {}
        self._order: dict[str, tuple[int, ...]] = {}
        self._run = next(_serial)

    def fresh(self, hint: str, value: int, order: tuple[int, ...] | None = None) -> Dim:
        """A new unknown for a number; zero and one are never unknown."""
        # Axes of size 0 and 1 have rules of their own (broadcast, no element): they never vary.
        if value <= 1:
            return value
        index = len(self._hints)
        # The run makes names unique: terms are interned, and an unknown of an earlier run must not
        # be taken for this one.
        name = f"{hint}%{self._run}.{index}"
        self.values[name], self._hints[name] = value, hint
        self._order[name] = (index,) if order is None else order
        return Size.named(name)

    def names(self) -> dict[str, str]:
        """A readable name for each unknown that is left.

        Its hint, with a number where that is used.
        """
        readable: dict[str, str] = {}
        used: set[str] = set()
        for name, hint in self._hints.items():
            if name in self._solved:
                continue
            # Readable names are unique within one result; internal ones are unique within the
            # process.
            pretty, number = hint, 1
            while pretty in used:
                number += 1
                pretty = f"{hint}_{number}"
            used.add(pretty)
            readable[name] = pretty
        return readable

    def hint(self, name: str) -> str:
        """The name that `fresh` was given for the unknown."""
        return self._hints[name]

    def reason(self, dim: Dim) -> str:
        """Why a size is a number."""
        if isinstance(dim, int):
            return "a size of nought or one stays"
        first = min(dim.names, key=self._order.__getitem__)
        return self.fixed.get(first) or self.reason(self._solved[first])

    def resolve(self, dim: Dim) -> Dim:
        """A size in the unknowns that are left."""
        # Solutions may mention unknowns that were solved later; the chain ends, since each is
        # replaced by newer ones.
        while isinstance(dim, Size) and any(name in self._solved for name in dim.names):
            dim = dim.at(self._solved)
        return dim

    def value(self, dim: Dim) -> int:
        """The number of a size in the concrete program."""
        number = dim if isinstance(dim, int) else dim.at(self.values)
        assert isinstance(number, int)
        return number

    def number(self, dim: Dim, why: str) -> int:
        """The number of a size, which becomes fixed; see `Dimensions.number`."""
        self._fix(self.resolve(dim), why)
        return self.value(dim)

    def same(self, a: Dim, b: Dim, why: str) -> Dim:
        """Equates two sizes; raises ShapeError where their numbers differ."""
        if self.value(a) != self.value(b):
            raise ShapeError(f"{why}: {self.value(a)} is not {self.value(b)}")
        self._equate(a, b, why)
        return self.resolve(a)

    def over(self, a: Dim, b: Dim, why: str) -> Dim:
        """The exact quotient; `a = b·c` is stated with a new unknown c where it is not seen."""
        a, b = self.resolve(a), self.resolve(b)
        exact = quotient(a, b)
        if exact is not None:
            return exact
        whole, part = self.value(a), self.value(b)
        if part == 0 or whole % part:
            raise ShapeError(f"{why}: {part} does not divide {whole}")
        # A sum has no single cofactor: each term is divided.
        if isinstance(a, Size) and len(a.terms) > 1:
            return self._sum_over(a, b, why)
        cofactor = self.fresh(self._base(a), whole // part)
        self._equate(a, b * cofactor, why)
        return self.resolve(cofactor)

    def ordered(self, dims: Sequence[Dim], why: str) -> tuple[Dim, ...]:
        """Sizes in rising order, as multiples of their greatest common divisor."""
        values = [self.value(dim) for dim in dims]
        if any(b < a for a, b in pairwise((0, *values))):
            raise ShapeError(f"{why}: {', '.join(map(str, values))} is no rising order")
        # A slice of the whole axis: stop is the size itself, whatever it is.
        if values[0] == 0 and values[1] == values[-1]:
            self._equate(dims[1], dims[-1], why)
        else:
            # Start, stop and size scale together: a half stays a half at every size.
            unit = gcd(*values)
            chunk = self.fresh(self._base(dims[-1]), unit)
            for dim, value in zip(dims, values, strict=True):
                self._equate(dim, chunk * (value // unit if unit else 0), why)
        return tuple(map(self.resolve, dims))

    def _base(self, dim: Dim) -> str:
        """The name for a part of a size."""
        names = () if isinstance(dim, int) else sorted(dim.names, key=self._order.__getitem__)
        return _part(self._hints[names[-1]]) if names else "part"

    def _fix(self, dim: Dim, why: str) -> None:
        """Makes numbers of all unknowns in a size."""
        for name in () if isinstance(dim, int) else dim.names:
            self._solve(name, self.values[name], why)

    def _solve(self, name: str, dim: Dim, why: str) -> None:
        """Replaces an unknown by `dim` from now on."""
        self._solved[name] = dim
        if isinstance(dim, int):
            self.fixed[name] = why

    def _equate(self, a: Dim, b: Dim, why: str) -> None:
        """Solves one equation, step by step, until both sides are one polynomial."""
        while True:
            left, right = _sides(self.resolve(a), self.resolve(b))
            if not left.terms and not right.terms:
                return
            # No step applies: numbers satisfy the equation, as the concrete program does.
            if not self._step(left, right, why):
                self._fix(self.resolve(a), why)
                self._fix(self.resolve(b), why)
                return

    def _step(self, left: Size, right: Size, why: str) -> bool:
        """Solves for at least one unknown; False where no rule applies."""
        alone = [name for name in (_alone(left, right), _alone(right, left)) if name]
        if alone:
            # Of two unknowns, the later one is replaced, so that names come from the first input
            # that has the axis.
            name = max(alone, key=self._order.__getitem__)
            expression = right if name == _alone(left, right) else left
            self._solve(name, product([expression, 1]), why)
            return True
        if left.monomial and right.monomial:
            return self._refine(left.monomial, right.monomial, why)
        return self._match(left, right, why) or self._split(left, right, why)

    def _refine(self, left: tuple[Powers, int], right: tuple[Powers, int], why: str) -> bool:
        """Takes a common factor of an unknown on each side out of both."""
        ours, theirs = self._atoms(left[0]), self._atoms(right[0])
        for our_name in ours:
            for their_name in theirs:
                # Parts of axes have to be cut at a common boundary; the greatest common divisor is
                # the longest such part.
                shared = gcd(self.values[our_name], self.values[their_name])
                if shared > 1:
                    self._share(our_name, their_name, shared, why)
                    return True
        # A literal factor on one side has to divide an unknown on the other: 2·a = b splits b into
        # 2·b'.
        for names, factor in ((ours, right[1]), (theirs, left[1])):
            for name in names:
                shared = gcd(self.values[name], factor)
                if shared > 1:
                    self._solve(name, shared * self._rest(name, shared), why)
                    return True
        return False

    def _share(self, left: str, right: str, shared: int, why: str) -> None:
        """Writes two unknowns as multiples of one new unknown, whose number is `shared`."""
        common: Dim = 0
        for name in (left, right):
            if self.values[name] == shared:
                # An unknown that is the shared factor already serves as it is.
                common = common or Size.named(name)
        if not common:
            common = self.fresh(_part(self._hints[left]), shared, (*self._order[left], 0))
        for name in (left, right):
            if common != Size.named(name):
                self._solve(name, common * self._rest(name, shared), why)

    def _rest(self, name: str, factor: int) -> Dim:
        """The cofactor of an unknown once `factor` is taken out."""
        cofactor = self.values[name] // factor
        return self.fresh(_part(self._hints[name]), cofactor, (*self._order[name], 1))

    def _match(self, left: Size, right: Size, why: str) -> bool:
        """Equates sums of as many terms with equal numbers, term by term."""
        # Sorted by number: terms of equal numbers are assumed to correspond, as in two
        # concatenations of the same operands.
        ours = sorted(map(_single, left.terms), key=self.value)
        theirs = sorted(map(_single, right.terms), key=self.value)
        if list(map(self.value, ours)) != list(map(self.value, theirs)):
            return False
        for our_term, their_term in zip(ours, theirs, strict=True):
            self._equate(our_term, their_term, why)
        return True

    def _split(self, left: Size, right: Size, why: str) -> bool:
        """Equates a sum with a product: every term has the product's smaller factors."""
        total, whole = (left, right) if right.monomial else (right, left)
        if not whole.monomial or not whole.names:
            return False
        # The largest factor is what the sum is a multiple of; the smaller ones divide every term.
        largest = max(whole.names, key=self.values.__getitem__)
        factor = quotient(whole, Size.named(largest))
        # Only a factor that divides every term's number may be taken out.
        if factor is None or any(self.value(_single(t)) % self.value(factor) for t in total.terms):
            return False
        part = self._sum_over(total, factor, why)
        self._equate(Size.named(largest), part, why)
        return True

    def _sum_over(self, total: Size, part: Dim, why: str) -> Dim:
        """A sum divided by `part`, term by term; numbers where some term is no multiple."""
        if any(self.value(_single(term)) % self.value(part) for term in total.terms):
            self._fix(total, why)
            self._fix(self.resolve(part), why)
            return self.value(total) // self.value(part)
        total_over: Dim = 0
        for term in total.terms:
            total_over = total_over + self.over(_single(term), part, why)
        return self.resolve(total_over)

    def _atoms(self, powers: Powers) -> list[str]:
        """The unknowns of a product, the outermost part of an axis first."""
        return sorted((name for name, _ in powers), key=self._order.__getitem__)


def _part(name: str) -> str:
    """The name of a part of an axis, which is a part itself if the axis is."""
    return name if name.endswith("_part") else f"{name}_part"


def _single(term: tuple[Powers, int]) -> Size:
    """The size of a single term."""
    return Size(dict([term]))


def _sides(a: Dim, b: Dim) -> tuple[Size, Size]:
    """The positive and the negative terms of `a - b`, without common factors."""
    difference = a - b
    if isinstance(difference, int):
        return Size({(): max(difference, 0)}), Size({(): max(-difference, 0)})
    terms = difference.terms
    # Dividing by common factors exposes single unknowns: 2·n = 2·m becomes n = m.
    powers, factor = _common(terms)
    terms = tuple((_less(term_powers, powers), n // factor) for term_powers, n in terms)
    return Size({p: n for p, n in terms if n > 0}), Size({p: -n for p, n in terms if n < 0})


def _common(terms: Iterable[tuple[Powers, int]]) -> tuple[dict[str, int], int]:
    """The largest product that divides every term."""
    first, *following = terms
    powers, factor = dict(first[0]), abs(first[1])
    for term_powers, n in following:
        held = dict(term_powers)
        powers = {name: min(power, held.get(name, 0)) for name, power in powers.items()}
        factor = gcd(factor, n)
    return powers, factor


def _less(term_powers: Powers, powers: dict[str, int]) -> Powers:
    """The powers of a term after dividing by `powers`."""
    left = ((name, power - powers.get(name, 0)) for name, power in term_powers)
    return tuple((name, power) for name, power in left if power)


def _alone(side: Size, opposite: Size) -> str | None:
    """The unknown that is all of one side and no part of the other."""
    if len(side.terms) != 1:
        return None
    powers, factor = side.terms[0]
    # 2·n = m + 1 cannot be solved for n in integers, and n = n·m not for n at all.
    if factor != 1 or len(powers) != 1 or powers[0][1] != 1 or powers[0][0] in opposite.names:
        return None
    return powers[0][0]
