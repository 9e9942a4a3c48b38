"""A kernel by hand and the best of ours, in turns in one process, by two clocks."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import lib.optimizer.builtin_cases as layers
from lib.kernels.c_kernels import Workshop
from lib.kernels.rows import Row
from lib.optimizer.agreement import Judge
from lib.optimizer.paired_timing import LEAST, MOST, Compared, judged, repeats
from msgspec import Struct
from msgspec.structs import replace

from aiosearch.codegen.errors import NativeError
from aiosearch.codegen.native.embedded_source import EmbeddedProgram, embedded_programs
from aiosearch.measure.race import Clock
from aiosearch.measure.worker.huge_pages import in_huge_pages
from aiosearch.measure.worker.timing import cpu_ns, settle
from aiosearch.optimizer.candidates.generation import (
    CandidateGenerator,
    CandidateQuestion,
    CandidateSource,
)
from aiosearch.optimizer.candidates.schedule_point import SchedulePoint
from aiosearch.optimizer.effort import BUDGETS, Budget, Effort
from aiosearch.optimizer.race.kernel_tuning import tune_from_timings
from aiosearch.pool import usable_cores
from aiosearch.tensor.files import to_json

BUDGET = replace(BUDGETS[Effort.DEFAULT], kernels=16, trials=24, trial_seconds=30.0)
COPIES = 2
"""Of a hand kernel's weights, before and after ours, for it matters where in memory they lie."""
HEAT = 7
"""Samples of each, to find the best."""
FINALISTS = 3
"""Of ours that are proposed, and of those that trials find."""
SAMPLE = 0.02
"""Seconds of calls: until the system has given each thread a core of its own, which may
be the next tick, small kernels run on one."""
SEED = 0


class Kernel(NamedTuple):
    """One that runs: each call gives the results when they are there."""

    how: str
    call: Callable[[], Any]
    code: EmbeddedProgram | None = None
    """The machine code, where it is ours,"""
    given: Sequence[Any] = ()
    """and what it is called with."""


class Taken(NamedTuple):
    """Seconds of a call."""

    wall: float
    cpu: float


Clocks: TypeAlias = dict[Clock, Compared]


class Paired(Struct, frozen=True):
    """A row: the hand kernel first, and the best of ours that is right."""

    row: Row
    how: str
    """Which of ours it is."""
    entered: int
    out: tuple[str, ...]
    """Who computes something else, or does not run."""
    clocks: Clocks
    """The code, on threads like those of the hand kernel."""
    called: Clocks
    """As users call it, through XLA."""


def paired(row: Row, shop: Workshop, seconds: float, budget: Budget = BUDGET) -> Paired:
    """Compiles, checks, and times; raises ValueError where one side has nothing that is right."""
    judge = judge_of(row)
    arrays = [jnp.asarray(one) for one in judge.arrays]
    hands = [_hand(row, shop, arrays) for _ in range(COPIES)]
    own = Own(row, arrays, judge, budget)
    found = own.best()
    hands += [_hand(row, shop, arrays) for _ in range(COPIES)]
    if not found:
        raise ValueError(f"{row.name}: {'; '.join(own.out)}")
    bares = [_bare(one, shop) for one in found]
    times = heat(bares)
    first = min(range(len(bares)), key=times.__getitem__)
    best, bare, (hand, again, *_) = found[first], bares[first], fastest(hands)
    if not all(_is_right(one, judge, own.out) for one in (hand, again, bare)):
        raise ValueError(f"{row.name}: {'; '.join(own.out)}")
    clocks, called = in_turns((hand, again), (bare, best), seconds)
    return Paired(row, best.how, len(own.made), tuple(own.out), clocks, called)


def _bare(one: Kernel, shop: Workshop) -> Kernel:
    """The same machine code on threads like the hand kernels'."""
    assert one.code is not None
    return Kernel(f"{one.how}, without XLA", shop.generated(one.code, one.given))


def _hand(row: Row, shop: Workshop, arrays: Sequence[Any]) -> Kernel:
    return Kernel("by hand", shop.kernel(row, arrays))


def judge_of(row: Row) -> Judge:
    """Knows what the program gives on the inputs on which it is timed."""
    arrays = Judge.drawn(row.program, {}, SEED)
    return Judge(row.program, arrays, [jax.jit(layers.written(row.program))(*arrays)])


def _is_right(one: Kernel, judge: Judge, out: list[str]) -> bool:
    wrong = judge.objection([one.call()])
    if wrong:
        out.append(f"{one.how}: {wrong}")
    return not wrong


class Own:
    """What `optimize` would try, of the program as written and rewritten, as users call it."""

    def __init__(self, row: Row, arrays: Sequence[Any], judge: Judge, budget: Budget) -> None:
        question = CandidateQuestion(
            to_json(row.program), budget, SEED, False, row.constant, usable_cores()
        )
        self._rewriting = CandidateGenerator(question, lambda text: None)
        self._arrays, self._judge, self._budget = arrays, judge, budget
        self.made: dict[SchedulePoint, Kernel] = {}
        """Those that are right."""
        self._known: dict[SchedulePoint, float] = {}
        """What the proposed ones take."""
        self.out: list[str] = []
        """Who computes something else, or does not run."""

    def best(self) -> list[Kernel]:
        """The first few of those that are proposed, and of those that trials find beside them."""
        for one in self._rewriting.contest().contenders:
            if one.place is not None:
                self._enter(one, one.place)
        known = self._known = dict(zip(self.made, heat([*self.made.values()]), strict=True))
        budget = self._budget
        found = asyncio.run(
            tune_from_timings(known, self._beside, self._time, budget.trials, budget.trial_seconds)
        )
        first = sorted(known, key=known.__getitem__)[:FINALISTS]
        return [self.made[one] for one in [*first, *(one.place for one in found[:FINALISTS])]]

    async def _beside(self, place: SchedulePoint) -> Sequence[SchedulePoint]:
        return self._rewriting.neighbours(place)

    async def _time(self, place: SchedulePoint) -> float | None:
        """By turns with the best that was proposed: a machine is not as fast at all times."""
        self._enter(self._rewriting.contender(place), place)
        if place not in self.made:
            return None
        best = min(self._known, key=self._known.__getitem__)
        then, now = heat([self.made[best], self.made[place]])
        return self._known[best] * now / then

    def _enter(self, one: CandidateSource, place: SchedulePoint) -> None:
        try:
            kernel = _called(one, self._arrays)
        except NativeError as error:
            self.out.append(f"{one.how}: {error}")
            return
        if _is_right(kernel, self._judge, self.out):
            self.made[place] = kernel


def _called(one: CandidateSource, arrays: Sequence[Any]) -> Kernel:
    module: dict[str, Any] = {}
    exec(one.source, module)
    packed = one.beforehand.positions if one.beforehand else ()
    given = [each for at, each in enumerate(arrays) if at not in packed]
    inputs = list(arrays)
    if one.beforehand:
        made = [
            in_huge_pages(each)
            for each in module[one.beforehand.function](*(arrays[at] for at in packed))
        ]
        given += made
        for at, each in zip(packed, made, strict=True):
            inputs[at] = each
    function = jax.jit(module[one.function]).lower(*given).compile()
    ((_, code),) = embedded_programs(one.source)
    return Kernel(
        one.how,
        lambda: jax.block_until_ready(function(*given)),  # type: ignore[no-untyped-call]
        code,
        inputs,
    )


def fastest(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Best first."""
    times = heat(kernels)
    return [kernels[at] for at in sorted(range(len(kernels)), key=times.__getitem__)]


def heat(kernels: Sequence[Kernel]) -> list[float]:
    """The least of each, where all run by turns: a machine is not as fast at all times."""
    counts = [repeats(one.call, SAMPLE) for one in kernels]
    rounds = [
        [sampled(one, count).wall for one, count in zip(kernels, counts, strict=True)]
        for _ in range(HEAT)
    ]
    return [min(taken) for taken in zip(*rounds, strict=True)]


def in_turns(hands: Sequence[Kernel], ours: Sequence[Kernel], seconds: float) -> list[Clocks]:
    """Each of ours against the two by hand, each round in an order that is drawn.

    The two that are alike have weights of their own: where those lie in memory is noise, too.
    """
    kernels = [*hands, *ours]
    counts, order = [repeats(one.call, SAMPLE) for one in kernels], list(range(len(kernels)))
    rng = random.Random(SEED)
    rounds: list[list[Taken]] = []
    end = time.perf_counter() + seconds
    while len(rounds) < LEAST or (len(rounds) < MOST and time.perf_counter() < end):
        rng.shuffle(order)
        taken = {turn: sampled(kernels[turn], counts[turn]) for turn in order}
        rounds.append([taken[turn] for turn in range(len(kernels))])
    return [
        {
            Clock.WALL: judged([(one[0].wall, one[at].wall, one[1].wall) for one in rounds]),
            Clock.CPU: judged([(one[0].cpu, one[at].cpu, one[1].cpu) for one in rounds]),
        }
        for at in range(len(hands), len(kernels))
    ]


def sampled(one: Kernel, count: int) -> Taken:
    """Of a call, over so many; others go first for what ran before."""
    settle(one.call)
    cpu, wall = cpu_ns(), time.perf_counter()
    for _ in range(count):
        one.call()
    wall = time.perf_counter() - wall
    return Taken(wall / count, (cpu_ns() - cpu) / 1e9 / count)
