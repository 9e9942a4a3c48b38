"""Benchmark inputs: a distribution on which the original program gives finite numbers.

Problem: a race on inputs for which the program gives NaN can judge nobody, as nothing is like NaN.
Normal inputs do for most programs; a logarithm wants positive ones, a product of many layers small
ones.

Example: of `log(x) + y` the first plan, `NORMAL`, gives NaN for half of the elements, the second,
`POSITIVE`, none; then `y` is put back to `NORMAL`, as it does not matter, and `x` stays.

Cost: one run of the original for each plan until one fits, then a bisection over the inputs that
can be normal again: logarithmic in the inputs where few of them matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from anyio import to_thread

from ...capture.jax_types import Leaf
from ...measure import Compiled, Draw, Executor, Failure
from ...measure.random_inputs import NORMAL
from ...tensor import DType, Program, Term
from ...tensor.terms import LITERAL
from ...tensor.types import EXACT

POSITIVE = Draw(0.125, 2.0)
"""Away from zero and infinity: for logarithms, roots and quotients."""
PLANS = (
    NORMAL,
    POSITIVE,
    Draw(1 / 16, 15 / 16),
    Draw(-1 / 8, 1 / 8, normal=True),
    Draw(1 / 64, 1 / 8),
    Draw(-1 / 64, 1 / 64, normal=True),
)
"""Distributions that are tried in this order for all inputs that are no integers."""

_MOVES = ("broadcast", "cast", "reshape", "transpose")
"""Operators that only move, repeat or convert elements."""


@dataclass(frozen=True)
class BenchmarkInputs:
    """What the inputs of a program are drawn from, by position, and how much of the outputs is
    finite then."""

    names: tuple[str, ...]
    draws: Mapping[int, Draw]
    finite: float = 1.0
    """The share of the outputs' elements that are finite."""

    def __str__(self) -> str:
        names_by_draw: dict[Draw, list[str]] = {}
        for at, draw in self.draws.items():
            names_by_draw.setdefault(draw, []).append(self.names[at])
        parts = [f"{', '.join(names)} {draw}" for draw, names in names_by_draw.items()]
        text = "; ".join(parts) if set(names_by_draw) - {NORMAL} else "normal inputs"
        lost = f"{100 * (1 - self.finite):.2g} % of the outputs not finite"
        return text if self.finite == 1.0 else f"{text}; {lost}"

    def on(self, compiled: Compiled, packed: Collection[int] = ()) -> Compiled:
        """The candidate with these draws for its inputs.

        Inputs at the positions `packed` are not among its own: other arrays stand behind all others
        in their place.
        """
        # Draws are by position among the candidate's own inputs, which are fewer where some are
        # packed.
        left = [at for at in range(len(self.names)) if at not in packed]
        draws = {place: self.draws[at] for place, at in enumerate(left) if at in self.draws}
        return replace(compiled, candidate=replace(compiled.candidate, draws=draws))


async def find_benchmark_inputs(
    executor: Executor, program: Program, original: Compiled, seed: int
) -> BenchmarkInputs | Failure:
    """Runs the original on one plan after the other, until all that it gives is finite.

    Where none does that, the plan with the most finite elements is taken. Every input is as normal
    as it can be. A `Failure` is that of the original.
    """
    search = _Search(executor, original, seed, _free(program))
    start = BenchmarkInputs(_names(program), _indices(program))
    try:
        best = await search.first(start)
        # All inputs at once need no try: with `NORMAL` for all of them the first plan has run
        # already.
        for part in _halves(search.free):
            best = await search.plainer(best, part)
    except _CannotRunError as error:
        return error.failure
    return best


class _CannotRunError(Exception):
    """Ends the search where the original itself fails."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


@dataclass(frozen=True)
class _Search:
    executor: Executor
    original: Compiled
    seed: int
    free: Sequence[int]
    """Positions of the inputs that are no integers."""

    async def first(self, start: BenchmarkInputs) -> BenchmarkInputs:
        """The first plan on which everything is finite, or the best one."""
        best: BenchmarkInputs | None = None
        for plan in PLANS if self.free else PLANS[:1]:
            inputs = await self.tried(start, dict.fromkeys(self.free, plan))
            # Strictly: of plans that are as good the first one is the most usual.
            if best is None or inputs.finite > best.finite:
                best = inputs
            if inputs.finite == 1.0:
                break
        assert best is not None
        return best

    async def plainer(self, best: BenchmarkInputs, places: Sequence[int]) -> BenchmarkInputs:
        """The inputs of `best`, with `NORMAL` for all of `places` that do not matter: all at once,
        else half by half."""
        if all(best.draws[at] == NORMAL for at in places):
            return best
        inputs = await self.tried(best, dict.fromkeys(places, NORMAL))
        if inputs.finite >= best.finite:
            return inputs
        for part in _halves(places):
            best = await self.plainer(best, part)
        return best

    async def tried(self, base: BenchmarkInputs, draws: Mapping[int, Draw]) -> BenchmarkInputs:
        """The inputs of `base` with these draws, and the share of the outputs that is finite."""
        # Sorted: equal draws give equal candidates, whatever was tried before.
        inputs = replace(base, draws=dict(sorted({**base.draws, **draws}.items())))
        outputs = await self.executor.run(inputs.on(self.original), self.seed)
        if isinstance(outputs, Failure):
            raise _CannotRunError(outputs)
        return replace(inputs, finite=await to_thread.run_sync(_finite, outputs))


def _halves(places: Sequence[int]) -> tuple[Sequence[int], ...]:
    """Both halves; nothing where there is one only."""
    half = len(places) // 2
    return (places[:half], places[half:]) if half else ()


def _finite(outputs: Sequence[Leaf]) -> float:
    """The share of the elements that are finite."""
    import numpy as np

    total = sum(output.size for output in outputs)
    # Half types are converted on the way, which may warn of what is counted here.
    with np.errstate(all="ignore"):
        count = sum(int(np.count_nonzero(np.isfinite(output))) for output in outputs)
    return count / total if total else 1.0


def _names(program: Program) -> tuple[str, ...]:
    return tuple(str(term.parameter("name")) for term in program.inputs)


def _free(program: Program) -> tuple[int, ...]:
    """Positions of the inputs that are drawn from a plan: integers and truth values have draws of
    their own."""
    return tuple(at for at, term in enumerate(program.inputs) if term.dtype not in EXACT)


def _indices(program: Program) -> dict[int, Draw]:
    """Draws for integer inputs: those that are compared with places are places, those compared with
    0 or 1 are truth values.

    Example: `labels == iota(10)` draws labels from 0 to 9, as a one-hot encoding wants them.
    """
    whole = {term: at for at, term in enumerate(program.inputs) if term.dtype is DType.I32}
    counts: dict[int, int] = {}
    for term, count in _compared(program):
        if term in whole:
            # Compared with several ramps, it may be a place in the longest of them.
            counts[whole[term]] = max(count, counts.get(whole[term], 0))
    return {at: Draw(0.0, float(count)) for at, count in counts.items()}


def _compared(program: Program) -> Iterator[tuple[Term, int]]:
    """Terms that are compared for equality with a ramp or a 0 or 1, and how many different numbers
    that has."""
    for term in program.terms():
        if term.operator.name in ("equal", "not_equal"):
            left, right = map(_unmoved, term.arguments)
            for places, value in ((left, right), (right, left)):
                if places.operator.name == "iota":
                    yield value, int(str(places.shape[places.parameter("axis")]))
                elif places.operator is LITERAL and places.parameter("value") in (0, 1):
                    yield value, 2


def _unmoved(term: Term) -> Term:
    """The array whose elements a term has, in whatever shape."""
    while term.operator.name in _MOVES:
        term = term.arguments[0]
    return term
