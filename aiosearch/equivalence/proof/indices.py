"""Element indices as sums of index variables, and the ranges, digits or cases that an index runs
over.

Everything that an index runs over: whole, in digits, in ranges, or one place after the other.
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
    """The proof has no means for this."""


class SplitNeeded(Exception):
    """An index is used as two digits: it has to be written `high * inner + low`."""

    def __init__(self, var: Var, inner: Dim) -> None:
        self.var, self.inner = var, inner


class CasesNeeded(Exception):
    """An index crosses a border between two tensors: below and above are two cases."""

    def __init__(self, var: Var, border: Dim) -> None:
        self.var, self.border = var, border


Names: TypeAlias = Mapping[Var, str]


def _number(term: tuple[Var, Dim]) -> int:
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
        """A variable's value; one that can only be zero is zero."""
        return cls(((var, 1),) if var.extent != 1 else ())

    @property
    def vars(self) -> tuple[Var, ...]:
        return tuple(var for var, _ in self.terms)

    def plus(self, other: IndexSum) -> IndexSum:
        factors: dict[Var, Dim] = dict(self.terms)
        for var, factor in other.terms:
            factors[var] = factors.get(var, 0) + factor
        return IndexSum(
            ((var, factor) for var, factor in factors.items() if factor != 0),
            self.constant + other.constant,
        )

    def times(self, factor: Dim) -> IndexSum:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return IndexSum(((var, own * factor) for var, own in self.terms), self.constant * factor)

    def shifted(self, by: Dim) -> IndexSum:
        return IndexSum(self.terms, self.constant + by)

    def at(self, values: Mapping[Var, IndexSum]) -> IndexSum:
        """Puts indices in the place of variables."""
        if not any(var in values for var, _ in self.terms):
            return self
        result = IndexSum((), self.constant)
        for var, factor in self.terms:
            value = values.get(var)
            part = IndexSum(((var, factor),)) if value is None else value.times(factor)
            result = result.plus(part)
        return result

    def key(self, names: Names) -> str:
        """The same for indices that are the same under these names."""
        if not names or not any(var in names for var, _ in self.terms):
            if self._key is None:
                self._key = self._text({})
            return self._key
        return self._text(names)

    def _text(self, names: Names) -> str:
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


def fits(low: Iterable[tuple[Var, Dim]], limit: Dim) -> bool:
    """Whether a sum of digits always stays below a limit."""
    reach: Dim = 1
    for var, factor in low:
        reach = reach + (var.extent - 1) * factor
    return at_most(reach, limit)


def at_most(a: Dim, b: Dim) -> bool:
    """Whether `a <= b` for all sizes; False also where it is not known."""
    if a == b:
        return True
    ratio = quotient(b, a) if a != 0 else None
    if ratio is not None and _never_negative(a) and _never_negative(ratio - 1):
        return True
    return _never_negative(b - a)


def _never_negative(dim: Dim) -> bool:
    """Whether it is seen that this is not below zero, where all named sizes are at least one."""
    if isinstance(dim, int):
        return dim >= 0
    rising = all(factor > 0 for powers, factor in dim.terms if powers)
    return rising and sum(factor for _, factor in dim.terms) >= 0


def divide(index: IndexSum, by: Dim) -> tuple[IndexSum, IndexSum]:
    """Writes an index as `high * by + low`; asks for a split where a variable straddles."""
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
    above, rest = parted(index.constant, by)
    if not at_most(0, rest):
        raise Unprovable(f"an index that begins {rest} before what is split by {by}")
    if not fits(low, by - rest):
        _split(low, by)
    return IndexSum(high, above), IndexSum(low, rest)


def parted(constant: Dim, by: Dim) -> tuple[Dim, Dim]:
    """Writes a constant as `above * by + rest`, as far as it is seen to hold `by`."""
    above: Dim = 0
    unit = _monomial(by)
    for powers, factor in _terms(constant):
        if unit is not None and powers == unit[0] and factor >= unit[1]:
            above = above + factor // unit[1]
    rest = constant - above * by
    whole = quotient(rest, by)
    return (above, rest) if whole is None else (above + whole, 0)


def _terms(dim: Dim) -> Iterable[tuple[Powers, int]]:
    return dim.terms if isinstance(dim, Size) else [((), dim)]


def _monomial(dim: Dim) -> tuple[Powers, int] | None:
    return dim.monomial if isinstance(dim, Size) else ((), dim)


def _split(low: list[tuple[Var, Dim]], by: Dim) -> None:
    """Finds the variable that reaches over the border, and asks for its digits."""
    for var, factor in low:
        inner = quotient(by, factor)
        if inner is None or inner in (1, var.extent) or quotient(var.extent, inner) is None:
            continue
        raise SplitNeeded(var, inner)
    raise Unprovable(f"an index that is split by {by} in another way than it is made")


def border(index: IndexSum, at: Dim) -> bool:
    """Whether an index is always below a border; asks for cases where it crosses it."""
    reach: Dim = index.constant + 1
    for var, factor in index.terms:
        reach = reach + (var.extent - 1) * factor
    if at_most(reach, at):
        return True
    if at_most(at, index.constant):
        return False
    for var, factor in index.terms:
        lower = [(other, f) for other, f in index.terms if other is not var]
        step = quotient(at - index.constant, factor)
        within = step is not None and at_most(0, step) and at_most(step, var.extent)
        if step is not None and within and fits(lower, factor):
            raise CasesNeeded(var, step)
    raise Unprovable(f"an index that crosses the border {at} in the middle of a digit")


ValueT = TypeVar("ValueT")

CASES = 64
"""How often one sum, or one output, is cut into cases or digits."""

Run: TypeAlias = tuple[tuple[IndexSum, ...], tuple[Var, ...]]
"""Indices, and the variables in them that run."""


def index_ranges(
    extents: Sequence[Dim], body: Callable[[tuple[IndexSum, ...]], ValueT], unrolled: int = 1
) -> list[tuple[tuple[Var, ...], ValueT]]:
    """The body over all indices: cases, each with the variables that it runs over."""
    vars_ = [Var(extent) for extent in extents]
    whole = tuple(IndexSum.of(var) for var in vars_), tuple(var for var in vars_ if var.extent != 1)
    work = list(_written_out(whole, unrolled)) if 0 not in extents else []
    found: list[tuple[tuple[Var, ...], ValueT]] = []
    for _ in range(CASES + len(work)):
        if not work:
            return found
        indices, bound = work.pop()
        try:
            found.append((bound, body(indices)))
        except SplitNeeded as split:
            if split.var not in bound:
                raise
            fire(Rule.SUM_SPLIT)
            work += _written_out(digits(indices, bound, split), unrolled)
        except CasesNeeded as cases:
            if cases.var not in bound:
                raise
            fire(Rule.SUM_RANGES)
            work += ranges(indices, bound, cases)
    raise Unprovable("too many cases")


def _written_out(run: Run, unrolled: int) -> Iterator[Run]:
    """The run itself; or one for each place of those of its variables that have few."""
    indices, bound = run
    short = [var for var in bound if isinstance(var.extent, int) and var.extent <= unrolled]
    rest = tuple(var for var in bound if var not in short)
    for places in itertools.product(*(range(_count(var)) for var in short)):
        at = {var: IndexSum((), place) for var, place in zip(short, places, strict=True)}
        yield tuple(index.at(at) for index in indices), rest


def _count(var: Var) -> int:
    assert isinstance(var.extent, int)
    return var.extent


def digits(indices: Sequence[IndexSum], bound: Sequence[Var], split: SplitNeeded) -> Run:
    """Writes a variable as two digits."""
    outer = quotient(split.var.extent, split.inner)
    if outer is None:
        raise Unprovable(f"{split.inner} does not divide {split.var.extent}")
    high, low = Var(outer), Var(split.inner)
    value = IndexSum.of(high).times(split.inner).plus(IndexSum.of(low))
    rest = [var for var in bound if var is not split.var]
    fresh = [var for var in (high, low) if var.extent != 1]
    return tuple(index.at({split.var: value}) for index in indices), (*rest, *fresh)


def ranges(indices: Sequence[IndexSum], bound: Sequence[Var], cases: CasesNeeded) -> list[Run]:
    """Cuts a variable's range in two."""
    rest = [var for var in bound if var is not cases.var]
    found: list[Run] = []
    for start, extent in ((0, cases.border), (cases.border, cases.var.extent - cases.border)):
        if extent == 0:
            continue
        part = Var(extent)
        value = IndexSum.of(part).shifted(start)
        fresh = [part] if extent != 1 else []
        found.append((tuple(index.at({cases.var: value}) for index in indices), (*rest, *fresh)))
    return found
