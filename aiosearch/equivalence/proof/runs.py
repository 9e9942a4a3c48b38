"""Everything that an index runs over: whole, in digits, in ranges, or one place after the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from ...tensor.sizes import Dim, quotient
from .indices import CasesNeeded, Index, SplitNeeded, Unprovable, Var
from .rules import Rule, fire

ValueT = TypeVar("ValueT")

CASES = 64
"""How often one sum, or one output, is cut into cases or digits."""

Run: TypeAlias = tuple[tuple[Index, ...], tuple[Var, ...]]
"""Indices, and the variables in them that run."""


def runs(
    extents: Sequence[Dim], body: Callable[[tuple[Index, ...]], ValueT], unrolled: int = 1
) -> list[tuple[tuple[Var, ...], ValueT]]:
    """The body over all indices: cases, each with the variables that it runs over."""
    vars_ = [Var(extent) for extent in extents]
    whole = tuple(Index.of(var) for var in vars_), tuple(var for var in vars_ if var.extent != 1)
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
        at = {var: Index((), place) for var, place in zip(short, places, strict=True)}
        yield tuple(index.at(at) for index in indices), rest


def _count(var: Var) -> int:
    assert isinstance(var.extent, int)
    return var.extent


def digits(indices: Sequence[Index], bound: Sequence[Var], split: SplitNeeded) -> Run:
    """Writes a variable as two digits."""
    outer = quotient(split.var.extent, split.inner)
    if outer is None:
        raise Unprovable(f"{split.inner} does not divide {split.var.extent}")
    high, low = Var(outer), Var(split.inner)
    value = Index.of(high).times(split.inner).plus(Index.of(low))
    rest = [var for var in bound if var is not split.var]
    fresh = [var for var in (high, low) if var.extent != 1]
    return tuple(index.at({split.var: value}) for index in indices), (*rest, *fresh)


def ranges(indices: Sequence[Index], bound: Sequence[Var], cases: CasesNeeded) -> list[Run]:
    """Cuts a variable's range in two."""
    rest = [var for var in bound if var is not cases.var]
    found: list[Run] = []
    for start, extent in ((0, cases.border), (cases.border, cases.var.extent - cases.border)):
        if extent == 0:
            continue
        part = Var(extent)
        value = Index.of(part).shifted(start)
        fresh = [part] if extent != 1 else []
        found.append((tuple(index.at({cases.var: value}) for index in indices), (*rest, *fresh)))
    return found
