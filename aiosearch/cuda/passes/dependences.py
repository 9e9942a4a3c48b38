"""Whether two accesses of loop nests can touch the same memory, for iterations in some relation.

    for (i..) for (j = i + 1..n) { c[i][j] = 0; ...; c[j][i] = c[i][j]; }

The store to c[j][i] meets the load of c[i'][j'] where 8 (n j + i) = 8 (n i' + j'), with i < j < n
and i' < j' < n. Three steps decide whether whole numbers do that:

1. The equation is taken apart by its coefficients, the largest first: what stands with smaller ones
   spans less than n, so it is 0 itself. That leaves j = i' and i = j'.
2. Equations with a coefficient of 1 are put into all others and into the bounds. Here that leaves
   i < j and j < i.
3. Fourier and Motzkin's elimination: every lower bound of a variable has to be below every upper
   one. Coefficients are divided by their divisor, and constants rounded, as variables are whole.

The answer "no" is proved. "Yes" may be wrong where only fractions solve it, where a bound is no
affine form, or where elimination would give too many inequalities.

The first question is cheaper: over a box around the nest the difference of two addresses is least
and greatest at corners, and where no overlap is between them, or has the right remainder by the
divisor of the coefficients, the three steps are not needed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from ..ir.operations import For, IrValue, Region, inner, results, walk
from .effects import AffineForm

_MOST_INEQUALITIES = 300


class Relation(StrEnum):
    """How a counter is in one iteration, beside the same in another: `<` for less."""

    SAME = "="
    LESS = "<"
    GREATER = ">"
    ANY = "*"


@dataclass(frozen=True, slots=True)
class CountedRange:
    """A loop and what its counter is: from `low` to `high` in all iterations of the loops around
    it, and from `least` to `greatest`, which are forms of their counters, in each."""

    loop: For
    low: int
    high: int
    least: AffineForm
    greatest: AffineForm

    @property
    def counter(self) -> IrValue:
        return self.loop.counter

    @property
    def trips(self) -> int:
        return max(self.high - self.low + 1, 0) // abs(self.loop.step) or 1

    @property
    def later(self) -> Relation:
        """How the counter of an iteration is beside that of any after it: `LESS` if upwards."""
        return Relation.LESS if self.loop.step > 0 else Relation.GREATER


@dataclass(frozen=True, slots=True)
class NestAccess:
    """An access below a `root`, with the `loops` around it from the outside in."""

    root: IrValue | None
    form: AffineForm | None
    writes: bool
    size: int
    loops: tuple[CountedRange, ...]


def overlap(
    first: NestAccess,
    second: NestAccess,
    relations: Mapping[IrValue, Relation],
    computed: Collection[IrValue],
    clock: tuple[IrValue, IrValue, Relation] | None = None,
) -> bool:
    """Whether two accesses below one root can touch the same bytes, with counters so related.

    What is no counter is the same in both, unless it is `computed` by the nest. A `clock` relates a
    counter of the first to one of the second, which need not be the same.
    """
    if first.form is None or second.form is None:
        return True
    ranges = {item.counter: item for item in (*first.loops, *second.loops)}
    left, right = dict(first.form.terms), dict(second.form.terms)
    spans: list[_Span] = []
    for value in {*left, *right, *relations}:
        bounds = ranges.get(value)
        if bounds is None:
            if left.get(value, 0) != right.get(value, 0) or value in computed:
                return True
            continue
        relation = relations.get(value, Relation.ANY)
        listed = _spans(left.get(value, 0), right.get(value, 0), bounds, relation)
        if listed is None:
            return False
        spans += listed
    apart = first.form.constant - second.form.constant
    if not _reaches(spans, apart, first.size, second.size):
        return False
    system = _System.of(first, second, relations, computed)
    if clock is not None:
        system.relate(*clock, relations)
    return system.has_solution()


def outermost(
    form: AffineForm,
    nest: Sequence[CountedRange],
    outer: Sequence[CountedRange],
    *,
    least: bool,
) -> AffineForm | None:
    """The `least` or greatest value of a form while a nest runs, as a form of what is around it."""
    ranges = {item.counter: item for item in nest}
    around = {item.counter for item in outer}
    terms: dict[IrValue, int] = {}
    constant = form.constant
    for value, factor in form.terms:
        if value in around:
            terms[value] = terms.get(value, 0) + factor
            continue
        bounds = ranges.get(value)
        if bounds is None:
            return None
        lowest = least == (factor > 0)
        end = bounds.least if lowest else bounds.greatest
        inner = outermost(end, nest, outer, least=lowest)
        if inner is None:
            return None
        constant += factor * inner.constant
        for first, number in inner.terms:
            terms[first] = terms.get(first, 0) + factor * number
    listed = sorted(terms.items(), key=lambda item: item[0].number)
    return AffineForm(tuple((first, number) for first, number in listed if number), constant)


def changing(loop: For) -> set[IrValue]:
    """All values that may differ in another iteration of a `loop`."""
    nest = walk(Region((loop,)))
    return {item for line in nest for item in (*results(line), *inner(line))}


def same_iteration(loops: Sequence[CountedRange]) -> dict[IrValue, Relation]:
    """That counters of these `loops` are the same."""
    return {item.counter: Relation.SAME for item in loops}


def extremes(form: AffineForm, ranges: Mapping[IrValue, CountedRange]) -> tuple[int, int] | None:
    """The least and the greatest value of a form, with counters in their `ranges`."""
    low = high = form.constant
    for value, factor in form.terms:
        bounds = ranges.get(value)
        if bounds is None:
            return None
        ends = sorted((factor * bounds.low, factor * bounds.high))
        low, high = low + ends[0], high + ends[1]
    return low, high


def apart(
    between: AffineForm, counter: IrValue, bounds: tuple[AffineForm, AffineForm], size: int
) -> bool:
    """Whether two places are `size` bytes apart all through a loop, `between` being the distance.

    From x[i] to x[j] it is 8 j - 8 i, which for j up to i - 1 is -8 at most.
    """
    factor = dict(between.terms).get(counter, 0)
    still = between.plus(AffineForm(((counter, factor),), 0), -1)
    least, greatest = (
        still.plus(item, factor) for item in (bounds if factor > 0 else bounds[::-1])
    )
    above = not least.terms and least.constant >= size
    return above or (not greatest.terms and greatest.constant <= -size)


# --- inequalities

_Key: TypeAlias = tuple[IrValue, int]
"""A variable: a value, and in which of the two iterations; 2 is both."""
_SHARED = 2


@dataclass(slots=True)
class _Linear:
    """A sum of variables times whole numbers, plus a number: an `AffineForm` of two iterations."""

    terms: dict[_Key, int]
    constant: int = 0

    def plus(self, second: _Linear, factor: int) -> _Linear:
        terms = dict(self.terms)
        for key, number in second.terms.items():
            terms[key] = terms.get(key, 0) + factor * number
        return _Linear(
            {key: number for key, number in terms.items() if number},
            self.constant + factor * second.constant,
        )

    def times(self, factor: int) -> _Linear:
        return _Linear({}).plus(self, factor)


@dataclass(slots=True)
class _System:
    """Forms that are 0, the `equations`, and others that are not negative, the `inequalities`."""

    equations: list[_Linear] = field(default_factory=list)
    inequalities: list[_Linear] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        first: NestAccess,
        second: NestAccess,
        relations: Mapping[IrValue, Relation],
        computed: Collection[IrValue],
    ) -> _System:
        system = cls()
        counters = {item.counter for item in (*first.loops, *second.loops)}
        boxes: dict[_Key, tuple[int, int]] = {}

        def key(value: IrValue, side: int) -> _Key:
            same = value not in counters or relations.get(value) is Relation.SAME
            return (value, _SHARED if same else side)

        def linear(form: AffineForm, side: int) -> _Linear:
            whole = _Linear({}, form.constant)
            for value, factor in form.terms:
                whole = whole.plus(_Linear({key(value, side): 1}), factor)
            return whole

        for side, access in enumerate((first, second)):
            for item in access.loops:
                counter = key(item.counter, side)
                boxes[counter] = item.low, item.high
                place = _Linear({counter: 1})
                for form, sign in ((item.least, 1), (item.greatest, -1)):
                    if not any(
                        value in computed and value not in counters for value, _ in form.terms
                    ):
                        system.inequalities.append(place.plus(linear(form, side), -1).times(sign))
        for value, relation in relations.items():
            if relation in (Relation.LESS, Relation.GREATER) and value in counters:
                between = _Linear({key(value, 1): 1}).plus(_Linear({key(value, 0): 1}), -1)
                between = between.times(1 if relation is Relation.LESS else -1)
                system.inequalities.append(between.plus(_Linear({}, 1), -1))
        assert first.form is not None
        assert second.form is not None
        apart = linear(first.form, 0).plus(linear(second.form, 1), -1)
        size = first.size
        # Elements of one size that lie on multiples of it overlap only if they are the same.
        if second.size == size and not any(
            number % size for number in (apart.constant, *apart.terms.values())
        ):
            whole = _Linear(
                {value: number // size for value, number in apart.terms.items()},
                apart.constant // size,
            )
            system.equations += _taken_apart(whole, boxes)
        else:
            system.inequalities.append(apart.plus(_Linear({}, first.size - 1), 1))
            system.inequalities.append(apart.times(-1).plus(_Linear({}, second.size - 1), 1))
        return system

    def relate(
        self,
        first: IrValue,
        second: IrValue,
        relation: Relation,
        relations: Mapping[IrValue, Relation],
    ) -> None:
        """Adds that a counter of the first iteration is in a `relation` to one of the second."""
        left, right = (
            (value, _SHARED if relations.get(value) is Relation.SAME else side)
            for side, value in enumerate((first, second))
        )
        above = _Linear({left: 1}).plus(_Linear({right: 1}), -1)
        if relation is Relation.SAME:
            self.equations.append(above)
        elif relation is not Relation.ANY:
            above = above.times(1 if relation is Relation.GREATER else -1)
            self.inequalities.append(above.plus(_Linear({}, 1), -1))

    def has_solution(self) -> bool:
        """Whether numbers solve all of it; whole ones do at most where this is `True`."""
        while self.equations:
            equation = self.equations.pop()
            divisor = math.gcd(*equation.terms.values())
            if not divisor:
                if equation.constant:
                    return False
                continue
            if equation.constant % divisor:
                return False
            equation = _Linear(
                {key: number // divisor for key, number in equation.terms.items()},
                equation.constant // divisor,
            )
            unit = next((key for key, number in equation.terms.items() if abs(number) == 1), None)
            # Without a coefficient of 1, putting it in would make fractions of whole numbers.
            if unit is None:
                self.inequalities += [equation, equation.times(-1)]
                continue
            # From a x + rest = 0 with a = 1 or -1: adding -a b times it takes b x out of a form.
            sign = equation.terms[unit]

            def without(form: _Linear, unit: _Key = unit, sign: int = sign,
                        equation: _Linear = equation) -> _Linear:  # fmt: skip
                return form.plus(equation, -sign * form.terms.get(unit, 0))

            self.equations = [without(item) for item in self.equations]
            self.inequalities = [without(item) for item in self.inequalities]
        return _eliminated(self.inequalities)


def _taken_apart(form: _Linear, boxes: Mapping[_Key, tuple[int, int]]) -> list[_Linear]:
    """The equations for single subscripts of `a[i][j]` that one for an address comes down to."""
    if not form.terms:
        return [form]
    # The largest coefficient is that of the slowest subscript: bytes, or elements, of a whole row.
    largest = max(map(abs, form.terms.values()))
    columns = {key: number for key, number in form.terms.items() if number % largest}
    if not columns or any(key not in boxes for key in columns):
        return [form]
    whole = round(form.constant / largest)
    inner = _Linear(columns, form.constant - whole * largest)
    low = high = inner.constant
    for key, number in columns.items():
        ends = sorted(number * end for end in boxes[key])
        low, high = low + ends[0], high + ends[1]
    # A column that may leave its row, such as j + 1 behind the last, makes one equation of both.
    if low <= -largest or high >= largest:
        return [form]
    rows = {key: number // largest for key, number in form.terms.items() if number % largest == 0}
    return [_Linear(rows, whole), *_taken_apart(inner, boxes)]


def _eliminated(inequalities: Sequence[_Linear]) -> bool:
    """Whether fractions can meet all `inequalities`, each of which is rounded for whole numbers."""
    current = {_tightened(item) for item in inequalities}
    while True:
        if any(not terms and constant < 0 for terms, constant in current):
            return False
        keys = {key for terms, _ in current for key, _ in terms}
        if not keys:
            return True
        signs = {key: [0, 0] for key in keys}
        for terms, _ in current:
            for key, number in terms:
                signs[key][number > 0] += 1
        # Each lower bound is paired with each upper one, so the fewest pairs go first.
        key = min(keys, key=lambda item: signs[item][0] * signs[item][1])
        below: list[tuple[_Linear, int]] = []
        above: list[tuple[_Linear, int]] = []
        remaining: set[tuple[frozenset[tuple[_Key, int]], int]] = set()
        for terms, constant in current:
            number = dict(terms).get(key, 0)
            form = _Linear(dict(terms), constant)
            if not number:
                remaining.add((terms, constant))
            else:
                (below if number > 0 else above).append((form, abs(number)))
        for lower, number in below:
            for upper, factor in above:
                remaining.add(_tightened(lower.times(factor).plus(upper, number)))
        # Each variable may square the number of inequalities: then nothing is said.
        if len(remaining) > _MOST_INEQUALITIES:
            return True
        current = remaining


def _tightened(form: _Linear) -> tuple[frozenset[tuple[_Key, int]], int]:
    divisor = math.gcd(*form.terms.values()) or 1
    terms = frozenset((key, number // divisor) for key, number in form.terms.items())
    return terms, form.constant // divisor


# --- boxes


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of a difference of addresses: multiples of a number, between two of them."""

    divisor: int
    low: int
    high: int


def _spans(first: int, second: int, bounds: CountedRange, relation: Relation) -> list[_Span] | None:
    """The parts of `first * i - second * j` for i and j in a relation; none if no two are."""
    low, high = bounds.low, bounds.high
    if high < low or (relation in (Relation.LESS, Relation.GREATER) and high == low):
        return None
    if relation is Relation.GREATER:  # the same from the other side
        return _spans(-second, -first, bounds, Relation.LESS)
    if relation is Relation.SAME:
        return _multiples(first - second, low, high)
    if first == second:
        return _multiples(first, low - high, -1 if relation is Relation.LESS else high - low)
    if relation is Relation.ANY:
        return [*_multiples(first, low, high), *_multiples(-second, low, high)]
    corners = [(low, low + 1), (low, high), (high - 1, high)]
    values = [first * i - second * j for i, j in corners]
    return [_Span(math.gcd(first, second), min(values), max(values))]


def _multiples(factor: int, low: int, high: int) -> list[_Span]:
    if not factor:
        return []
    first, last = sorted((factor * low, factor * high))
    return [_Span(abs(factor), first, last)]


def _reaches(spans: Sequence[_Span], constant: int, size: int, second: int) -> bool:
    """Whether a sum of spans and a constant can be a distance at which two accesses overlap.

    Where rows of 800 bytes meet columns of 8, a distance of less than a row is made of columns
    alone, if these stay below a row together: 800 (i - i') + 8 (j - j') is 0 only if both are. So
    the spans are taken by their size, the largest first.
    """
    low = constant + sum(item.low for item in spans)
    high = constant + sum(item.high for item in spans)
    if high <= -size or low >= second:
        return False
    largest = max((item.divisor for item in spans), default=0)
    rows = [item for item in spans if item.divisor % largest == 0]
    columns = [item for item in spans if item.divisor % largest]
    if columns:
        whole = round(constant / largest) * largest
        inner = constant - whole
        first, last = (
            inner + sum(item.low for item in columns),
            inner + sum(item.high for item in columns),
        )
        if first >= max(size, second) - largest and last <= largest - max(size, second):
            apart = whole + sum(item.low for item in rows), whole + sum(item.high for item in rows)
            return apart[0] <= 0 <= apart[1] and _reaches(columns, inner, size, second)
    divisor = math.gcd(*(item.divisor for item in spans))
    return any(
        (apart - constant) % divisor == 0 if divisor else apart == constant
        for apart in range(max(low, 1 - size), min(high, second - 1) + 1)
    )
