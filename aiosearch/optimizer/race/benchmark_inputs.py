"""Benchmark inputs: a distribution on which the original program gives finite numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anyio import to_thread

from ...measure import Compiled, Draw, Executor, Failure
from ...measure.draws import NORMAL
from ...tensor import DType, Program, Term
from ...tensor.terms import LITERAL
from ...tensor.types import EXACT

POSITIVE = Draw(0.125, 2.0)
PLANS = (
    NORMAL,
    POSITIVE,
    Draw(1 / 16, 15 / 16),
    Draw(-1 / 8, 1 / 8, normal=True),
    Draw(1 / 64, 1 / 8),
    Draw(-1 / 64, 1 / 64, normal=True),
)
"""What is tried in this order for all inputs that are no whole numbers."""

_MOVES = ("broadcast", "cast", "reshape", "transpose")


@dataclass(frozen=True)
class BenchmarkInputs:
    """From what the inputs of a program are drawn, by position, and what comes of it."""

    names: tuple[str, ...]
    draws: Mapping[int, Draw]
    finite: float = 1.0
    """The share of the outputs' elements that are finite."""

    def __str__(self) -> str:
        told: dict[Draw, list[str]] = {}
        for at, draw in self.draws.items():
            told.setdefault(draw, []).append(self.names[at])
        parts = [f"{', '.join(names)} {draw}" for draw, names in told.items()]
        text = "; ".join(parts) if set(told) - {NORMAL} else "normal inputs"
        lost = f"{100 * (1 - self.finite):.2g} % of the outputs not finite"
        return text if self.finite == 1.0 else f"{text}; {lost}"

    def on(self, compiled: Compiled, packed: Collection[int] = ()) -> Compiled:
        """A candidate with the program's inputs, which draws them so.

        Something else may stand, after all others, for those at some places.
        """
        left = [at for at in range(len(self.names)) if at not in packed]
        draws = {place: self.draws[at] for place, at in enumerate(left) if at in self.draws}
        return replace(compiled, candidate=replace(compiled.candidate, draws=draws))


async def find_benchmark_inputs(
    executor: Executor, program: Program, original: Compiled, seed: int
) -> BenchmarkInputs | Failure:
    """Runs the original on one kind of inputs after the other, until all that it gives is finite.

    Where none is found, the kind with the most finite elements is taken. An input is as normal as
    it can be. The failure is the original's.
    """
    search = _Search(executor, original, seed, _free(program))
    known = BenchmarkInputs(_names(program), _indices(program))
    try:
        best = await search.first(known)
        for part in _halves(search.free):
            best = await search.plainer(best, part)
    except _CannotRunError as error:
        return error.failure
    return best


class _CannotRunError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


@dataclass(frozen=True)
class _Search:
    executor: Executor
    original: Compiled
    seed: int
    free: Sequence[int]
    """The inputs that are no whole numbers."""

    async def first(self, known: BenchmarkInputs) -> BenchmarkInputs:
        """The first plan on which everything is finite, or the best one."""
        best: BenchmarkInputs | None = None
        for plan in PLANS if self.free else PLANS[:1]:
            found = await self.tried(known, dict.fromkeys(self.free, plan))
            if best is None or found.finite > best.finite:
                best = found
            if found.finite == 1.0:
                break
        assert best is not None
        return best

    async def plainer(self, best: BenchmarkInputs, places: Sequence[int]) -> BenchmarkInputs:
        """The same with normal inputs at all of these places that do not matter."""
        if all(best.draws[at] == NORMAL for at in places):
            return best
        found = await self.tried(best, dict.fromkeys(places, NORMAL))
        if found.finite >= best.finite:
            return found
        for part in _halves(places):
            best = await self.plainer(best, part)
        return best

    async def tried(self, base: BenchmarkInputs, draws: Mapping[int, Draw]) -> BenchmarkInputs:
        wanted = replace(base, draws=dict(sorted({**base.draws, **draws}.items())))
        found = await self.executor.run(wanted.on(self.original), self.seed)
        if isinstance(found, Failure):
            raise _CannotRunError(found)
        return replace(wanted, finite=await to_thread.run_sync(_finite, found))


def _halves(places: Sequence[int]) -> tuple[Sequence[int], ...]:
    """Nothing where there is one only."""
    half = len(places) // 2
    return (places[:half], places[half:]) if half else ()


def _finite(outputs: Sequence[Any]) -> float:
    """The share of the elements that are finite."""
    import numpy as np

    total = sum(one.size for one in outputs)
    with np.errstate(all="ignore"):
        count = sum(int(np.count_nonzero(np.isfinite(one))) for one in outputs)
    return count / total if total else 1.0


def _names(program: Program) -> tuple[str, ...]:
    return tuple(str(term.parameter("name")) for term in program.inputs)


def _free(program: Program) -> tuple[int, ...]:
    return tuple(at for at, term in enumerate(program.inputs) if term.dtype not in EXACT)


def _indices(program: Program) -> dict[int, Draw]:
    """Whole numbers that are compared with places are places; with 0 or 1, truth values."""
    whole = {term: at for at, term in enumerate(program.inputs) if term.dtype is DType.I32}
    found: dict[int, int] = {}
    for term, count in _compared(program):
        if term in whole:
            found[whole[term]] = max(count, found.get(whole[term], 0))
    return {at: Draw(0.0, float(count)) for at, count in found.items()}


def _compared(program: Program) -> Iterator[tuple[Term, int]]:
    """What is compared with some of the numbers from 0 on, and how many these are."""
    for term in program.terms():
        if term.operator.name in ("equal", "not_equal"):
            one, other = map(_unmoved, term.arguments)
            for known, value in ((one, other), (other, one)):
                if known.operator.name == "iota":
                    yield value, int(str(known.shape[known.parameter("axis")]))
                elif known.operator is LITERAL and known.parameter("value") in (0, 1):
                    yield value, 2


def _unmoved(term: Term) -> Term:
    """The array whose elements a term has, in whatever shape."""
    while term.operator.name in _MOVES:
        term = term.arguments[0]
    return term
