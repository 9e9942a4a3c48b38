"""Element indices as sums of index variables, and the ranges or digits that an index runs over.

Problem: a reshape of [n, 4] to [4·n] reads element p of the result from row p div 4, column p mod
4. For symbolic p neither is a polynomial. So p is written in digits, p = 4·high + low with high < n
and low < 4, and the element is X[high, low]. `divide` does that: it returns quotient and remainder
where they are sums of whole terms, and otherwise raises `SplitNeeded` with the variable that has to
be split. A concatenation raises `CasesNeeded` in the same manner, and the caller (`index_ranges`,
`compare._ProvedOutput`) substitutes and evaluates again.

Example: `divide(12·i + 4·j + k, 4)`, with j < 3 and k < 4, is (3·i + j, k). With k < 8 it raises
SplitNeeded(k, 4).

Invariant: every variable runs from 0 to its extent - 1, and sizes are positive, so that bounds
follow from extents. Cost: evaluation starts again for each split; at most `CASES` times. See
docs/why/verdicts.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from ...tensor.sizes import Dim, Powers, Size, quotient
from .rules import Rule, fire

_numbers = itertools.count()


class Var:
    """An index that runs from 0 to below its extent."""

    __slots__ = ("extent", "number")

    def __init__(self, extent: Dim) -> None:
        self.extent = extent
        self.number = next(_numbers)

    def __repr__(self) -> str:
        return f"i{self.number}<{self.extent}"


class Unprovable(Exception):
    """The proof has no means for this: its message becomes `Proof.obstacle`."""


class SplitNeeded(Exception):
    """A variable is used as two digits: it has to be written `high * inner + low`."""

    def __init__(self, var: Var, inner: Dim) -> None:
        self.var, self.inner = var, inner


class CasesNeeded(Exception):
    """An index crosses the `border` between two tensors: below and above it are two cases."""

    def __init__(self, var: Var, border: Dim) -> None:
        self.var, self.border = var, border


Names: TypeAlias = Mapping[Var, str]
"""Names of bound variables, under which keys do not depend on which `Var` was created."""


def _number(term: tuple[Var, Dim]) -> int:
    """The order of variables in an `IndexSum`: that of their creation."""
    return term[0].number


class IndexSum:
    """A sum of index variables times sizes, and a constant. Immutable."""

    __slots__ = ("_key", "constant", "terms")

    def __init__(self, terms: Iterable[tuple[Var, Dim]], constant: Dim = 0) -> None:
        self.terms = tuple(sorted(terms, key=_number))
        self.constant = constant
        self._key: str | None = None

    @classmethod
    def of(cls, var: Var) -> IndexSum:
        """The value of `var`; a variable that can only be zero is left out."""
        return cls(((var, 1),) if var.extent != 1 else ())

    @property
    def vars(self) -> tuple[Var, ...]:
        """The variables that occur."""
        return tuple(var for var, _ in self.terms)

    def plus(self, other: IndexSum) -> IndexSum:
        """The sum, without variables whose factors cancel."""
        factors: dict[Var, Dim] = dict(self.terms)
        for var, factor in other.terms:
            factors[var] = factors.get(var, 0) + factor
        return IndexSum(
            ((var, factor) for var, factor in factors.items() if factor != 0),
            self.constant + other.constant,
        )

    def times(self, factor: Dim) -> IndexSum:
        """The index times a size."""
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return IndexSum(
            ((var, own_factor * factor) for var, own_factor in self.terms), self.constant * factor
        )

    def shifted(self, by: Dim) -> IndexSum:
        """The index plus a size."""
        return IndexSum(self.terms, self.constant + by)

    def at(self, values: Mapping[Var, IndexSum]) -> IndexSum:
        """Substitutes indices for variables."""
        if not any(var in values for var, _ in self.terms):
            return self
        result = IndexSum((), self.constant)
        for var, factor in self.terms:
            value = values.get(var)
            part = IndexSum(((var, factor),)) if value is None else value.times(factor)
            result = result.plus(part)
        return result

    def key(self, names: Names) -> str:
        """A text that is equal for indices that are equal under `names`."""
        # Most keys are asked for without names that matter: that text is computed once.
        if not names or not any(var in names for var, _ in self.terms):
            if self._key is None:
                self._key = self._text({})
            return self._key
        return self._text(names)

    def _text(self, names: Names) -> str:
        # Sorted by text, not by creation, so that the key depends on names alone.
        parts = sorted(
            f"{names.get(var) or f'i{var.number}'}" + ("" if factor == 1 else f"*({factor})")
            for var, factor in self.terms
        )
        if self.constant != 0 or not parts:
            parts.append(str(self.constant))
        return "+".join(parts)

    def __repr__(self) -> str:
        return self.key({})


ZERO = IndexSum(())
"""The index 0."""


def fits(low: Iterable[tuple[Var, Dim]], limit: Dim) -> bool:
    """Whether a sum of digits stays below `limit` for all values of its variables."""
    # The largest value plus one: each variable at its extent - 1.
    reach: Dim = 1
    for var, factor in low:
        reach = reach + (var.extent - 1) * factor
    return at_most(reach, limit)


def at_most(a: Dim, b: Dim) -> bool:
    """Whether `a <= b` for all sizes; False also where that is not seen."""
    if a == b:
        return True
    # a <= a·r where r >= 1 and a >= 0: also where b - a has mixed signs, as n·m - n.
    ratio = quotient(b, a) if a != 0 else None
    if ratio is not None and _never_negative(a) and _never_negative(ratio - 1):
        return True
    return _never_negative(b - a)


def _never_negative(dim: Dim) -> bool:
    """Whether `dim` is seen not to be negative, where all named sizes are at least one."""
    if isinstance(dim, int):
        return dim >= 0
    # A polynomial without negative factors grows in every size, so its least value is at sizes of
    # one, where it is the sum of its factors.
    rising = all(factor > 0 for powers, factor in dim.terms if powers)
    return rising and sum(factor for _, factor in dim.terms) >= 0


def divide(index: IndexSum, by: Dim) -> tuple[IndexSum, IndexSum]:
    """Writes an index as `high * by + low`.

    Raises `SplitNeeded` where a variable straddles `by`.
    """
    if by == 1:
        return index, ZERO
    high: list[tuple[Var, Dim]] = []
    low: list[tuple[Var, Dim]] = []
    for var, factor in index.terms:
        whole = quotient(factor, by)
        if whole is not None:
            high.append((var, whole))
        else:
            low.append((var, factor))
    above, remainder = parted(index.constant, by)
    # A negative remainder would make the low digit reach below zero.
    if not at_most(0, remainder):
        raise Unprovable(f"an index that begins {remainder} before what is split by {by}")
    # Quotient and remainder are right only if the low part never carries.
    if not fits(low, by - remainder):
        _split(low, by)
    return IndexSum(high, above), IndexSum(low, remainder)


def parted(constant: Dim, by: Dim) -> tuple[Dim, Dim]:
    """Writes a constant as `above * by + remainder`, as far as it is seen to hold `by`."""
    above: Dim = 0
    unit = _monomial(by)
    for powers, factor in _terms(constant):
        # Terms of the same powers as `by` hold it factor // unit times: 5·n + 1 by 2·n is 2,
        # remainder n + 1.
        if unit is not None and powers == unit[0] and factor >= unit[1]:
            above = above + factor // unit[1]
    remainder = constant - above * by
    whole = quotient(remainder, by)
    return (above, remainder) if whole is None else (above + whole, 0)


def _terms(dim: Dim) -> Iterable[tuple[Powers, int]]:
    """The terms of a size, or of a number: powers of names and an integer factor."""
    return dim.terms if isinstance(dim, Size) else [((), dim)]


def _monomial(dim: Dim) -> tuple[Powers, int] | None:
    """The only term of a size; None where it has several."""
    return dim.monomial if isinstance(dim, Size) else ((), dim)


def _split(low: list[tuple[Var, Dim]], by: Dim) -> None:
    """Raises `SplitNeeded` for the variable that reaches over a multiple of `by`."""
    for var, factor in low:
        inner = quotient(by, factor)
        # A split into digits of extent 1 changes nothing, and would recur forever.
        if inner is None or inner in (1, var.extent) or quotient(var.extent, inner) is None:
            continue
        raise SplitNeeded(var, inner)
    raise Unprovable(f"an index that is split by {by} in another way than it is made")


def border(index: IndexSum, at: Dim) -> bool:
    """Whether an index is always below `at`; raises `CasesNeeded` where it crosses."""
    reach: Dim = index.constant + 1
    for var, factor in index.terms:
        reach = reach + (var.extent - 1) * factor
    if at_most(reach, at):
        return True
    if at_most(at, index.constant):
        return False
    for var, factor in index.terms:
        # The variable whose step decides: all others together must stay within one step of it.
        lower = [(lower_var, f) for lower_var, f in index.terms if lower_var is not var]
        step = quotient(at - index.constant, factor)
        within = step is not None and at_most(0, step) and at_most(step, var.extent)
        if step is not None and within and fits(lower, factor):
            raise CasesNeeded(var, step)
    raise Unprovable(f"an index that crosses the border {at} in the middle of a digit")


ValueT = TypeVar("ValueT")
"""The value that a body computes of an element."""

CASES = 64
"""How often one sum, or one output, is cut into cases or digits."""

Run: TypeAlias = tuple[tuple[IndexSum, ...], tuple[Var, ...]]
"""Indices, and the variables in them that run."""


def index_ranges(
    extents: Sequence[Dim], body: Callable[[tuple[IndexSum, ...]], ValueT], unrolled: int = 1
) -> list[tuple[tuple[Var, ...], ValueT]]:
    """The body over all indices below `extents`: values, each with the variables that it runs over.

    Example: with extents [n + m] and a body that concatenates x (n rows) and y (m rows), there are
    two values, one over a variable below n and one over a variable below m.
    """
    vars_ = [Var(extent) for extent in extents]
    whole = tuple(IndexSum.of(var) for var in vars_), tuple(var for var in vars_ if var.extent != 1)
    work = list(_unrolled(whole, unrolled)) if 0 not in extents else []
    cases_done: list[tuple[tuple[Var, ...], ValueT]] = []
    # Work that is unrolled from the start is no case.
    for _ in range(CASES + len(work)):
        if not work:
            return cases_done
        indices, bound = work.pop()
        try:
            cases_done.append((bound, body(indices)))
        except SplitNeeded as split:
            # A variable of an enclosing sum: whoever bound it has to split it, and evaluates this
            # body again.
            if split.var not in bound:
                raise
            fire(Rule.SUM_SPLIT)
            work += _unrolled(digits(indices, bound, split), unrolled)
        except CasesNeeded as cases:
            if cases.var not in bound:
                raise
            fire(Rule.SUM_RANGES)
            work += ranges(indices, bound, cases)
    raise Unprovable("too many cases")


def _unrolled(run: Run, unrolled: int) -> Iterator[Run]:
    """The run itself; or one for each place of those of its variables that have few."""
    indices, bound = run
    short = [var for var in bound if isinstance(var.extent, int) and var.extent <= unrolled]
    # Places of a short axis are constants in the indices; the other variables still run.
    running = tuple(var for var in bound if var not in short)
    for places in itertools.product(*(range(_count(var)) for var in short)):
        at = {var: IndexSum((), place) for var, place in zip(short, places, strict=True)}
        yield tuple(index.at(at) for index in indices), running


def _count(var: Var) -> int:
    """The extent of a variable as a number."""
    assert isinstance(var.extent, int)
    return var.extent


def digits(indices: Sequence[IndexSum], bound: Sequence[Var], split: SplitNeeded) -> Run:
    """Writes a variable as two digits."""
    outer = quotient(split.var.extent, split.inner)
    if outer is None:
        raise Unprovable(f"{split.inner} does not divide {split.var.extent}")
    high, low = Var(outer), Var(split.inner)
    value = IndexSum.of(high).times(split.inner).plus(IndexSum.of(low))
    unchanged = [var for var in bound if var is not split.var]
    fresh = [var for var in (high, low) if var.extent != 1]
    return tuple(index.at({split.var: value}) for index in indices), (*unchanged, *fresh)


def ranges(indices: Sequence[IndexSum], bound: Sequence[Var], cases: CasesNeeded) -> list[Run]:
    """Cuts the range of a variable in two."""
    unchanged = [var for var in bound if var is not cases.var]
    parts: list[Run] = []
    for start, extent in ((0, cases.border), (cases.border, cases.var.extent - cases.border)):
        if extent == 0:
            continue
        part = Var(extent)
        value = IndexSum.of(part).shifted(start)
        fresh = [part] if extent != 1 else []
        parts.append(
            (tuple(index.at({cases.var: value}) for index in indices), (*unchanged, *fresh))
        )
    return parts
