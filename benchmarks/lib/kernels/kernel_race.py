"""A race of kernels: a heat of everyone, then the best of each kind at length, all in one process.

The best plain JAX of the heat comes first in the last race, and so is timed twice: that is the
noise. An entrant that computes something else is out.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from lib.kernels.entrants import KernelEntrants
from lib.kernels.rows import Row
from lib.optimizer.agreement import Judge
from msgspec import Struct

from aiosearch.measure import Failure, JaxExecutor, Race, Ratio, Way
from aiosearch.measure.candidates import Array
from aiosearch.measure.race import Clock
from aiosearch.optimizer.candidates.candidate_build import packer
from aiosearch.optimizer.candidates.generation import CandidateSource
from aiosearch.optimizer.candidates.generation_process import GenerationProcess
from aiosearch.optimizer.effort import Budget
from aiosearch.optimizer.errors import OptimizeError
from aiosearch.optimizer.jax_settings import current_settings
from aiosearch.optimizer.race.entrants import Entrants
from aiosearch.optimizer.race.kernel_tuning import KernelTrials

HEAT = 9
"""Rounds of the first race."""
BEST = 2
"""Of each kind go on, by each clock."""

SEED = 0

Ranks: TypeAlias = Mapping[CandidateSource, Mapping[Clock, float]]
"""What a call took in the heat."""


class Raced(Struct, frozen=True):
    """The last race of a row: the best plain JAX first, then more of it, the naive, and kernels."""

    row: Row
    race: Race
    entrants: tuple[CandidateSource, ...]
    naive: int
    entered: int
    out: tuple[str, ...]
    """Who failed, computes something else, or would not be taken by `optimize`, and why."""

    @property
    def jax(self) -> list[int]:
        """The places of plain JAX, the naive among it."""
        return [at for at, one in enumerate(self.entrants) if not one.kernels and self._timed(at)]

    @property
    def kernels(self) -> list[int]:
        return [at for at, one in enumerate(self.entrants) if one.kernels and self._timed(at)]

    def best(self, places: Sequence[int], way: Way, clock: Clock = Clock.WALL) -> int:
        return min(places, key=lambda at: self.seconds(at, way, clock))

    def ours(self, clock: Clock = Clock.WALL) -> int:
        """The kernel that counts: the best in the way that decides."""
        return self.best(self.kernels, self.race.deciding, clock)

    def seconds(self, place: int, way: Way, clock: Clock = Clock.WALL) -> float:
        return self.race.laps[place].samples[way].median(clock)

    @property
    def headline(self) -> Ratio | None:
        """What is asked for, as it was measured."""
        over = self.over_naive if self.row.over_naive else self.over_jax
        return over(self.race.deciding)

    def over_jax(self, way: Way, clock: Clock = Clock.WALL) -> Ratio | None:
        """The kernel over what is best of JAX in this way, by this clock."""
        return self._over(self.best(self.jax, way, clock), way, clock)

    def over_naive(self, way: Way, clock: Clock = Clock.WALL) -> Ratio | None:
        return self._over(self.naive, way, clock)

    def _over(self, base: int, way: Way, clock: Clock) -> Ratio | None:
        if not self.kernels:
            return None
        return self.race.speedup(self.ours(clock), over=base, way=way, clock=clock)

    def _timed(self, place: int) -> bool:
        return self.race.laps[place].failure is None


async def raced(
    row: Row,
    entrants: KernelEntrants,
    executor: JaxExecutor,
    budget: Budget,
    process: GenerationProcess,
    thorough: bool = True,
) -> Raced:
    """Compiles, races, checks, and races again; raises OptimizeError where the naive fails.

    Thoroughly, the best kernels are checked as `optimize` does it, which refuses more.
    """
    racing = _Racing(row, executor, budget, process, thorough)
    async with racing.field:
        last = await racing.last(entrants)
        race = await racing.race(last, budget.rounds)
    return Raced(row, race, tuple(last), last.index(entrants.naive), racing.entered, racing.out)


class _Racing:
    def __init__(
        self,
        row: Row,
        executor: JaxExecutor,
        budget: Budget,
        process: GenerationProcess,
        thorough: bool,
    ) -> None:
        self._row = row
        self._budget = budget
        self._process = process
        self._thorough = thorough
        self.field = Entrants(executor, row.program, SEED, False, _said)
        self._known: dict[CandidateSource, bool] = {}
        """Whether they are right."""
        self._refused: set[int] = set()
        """Forms of which a kernel was refused."""

    async def last(self, entrants: KernelEntrants) -> list[CandidateSource]:
        """Who runs in the last race, in its order."""
        await self.field.begin([entrants.naive, *entrants.jax, *entrants.kernels])
        ranks = await self._ranks(list(self.field.compiled))
        judge = await self._judge()
        jax = [one for one in entrants.jax if one in ranks]
        kernels = {one: ranks[one] for one in ranks if one.kernels}
        kernels = await self._tuned(kernels, ranks[entrants.naive], judge)
        return [
            *await self._best(jax, ranks, judge),
            entrants.naive,
            *await self._best(list(kernels), kernels, judge),
        ]

    async def race(self, entrants: Sequence[CandidateSource], rounds: int) -> Race:
        return (await self.field.race(entrants, rounds)).race

    @property
    def entered(self) -> int:
        return len(self.field.compiled)

    @property
    def out(self) -> tuple[str, ...]:
        return tuple(f"{one.how}: {why}" for one, why in self.field.notes.items())

    async def _ranks(self, some: Sequence[CandidateSource]) -> Ranks:
        if not some:
            return {}
        race = await self.race(some, HEAT)
        found = {}
        for one, lap in zip(some, race.laps, strict=True):
            if lap.failure is None:
                samples = lap.samples[race.deciding]
                found[one] = {clock: samples.median(clock) for clock in Clock}
        return found

    async def _tuned(self, ranks: Ranks, naive: Mapping[Clock, float], judge: Judge) -> Ranks:
        """These kernels, and others near those that are right that `optimize` would try, too."""
        best = next(iter(await self._best(list(ranks), ranks, judge, 1)), None)
        watched = await self._watched(naive)
        if watched:
            ranks = {**ranks, **watched}
            best = next(iter(await self._best(list(ranks), ranks, judge, 1)), None)
        if best is None:
            return {}
        left = {one: taken for one, taken in ranks.items() if not self._is_refused(one)}
        known = {one: taken[Clock.WALL] for one, taken in left.items()}
        trials = KernelTrials(self.field, self._process, best, known[best])
        found = await trials.run(known, self._budget)
        return {**left, **{one: dict.fromkeys(Clock, taken) for one, taken in found.items()}}

    async def _watched(self, naive: Mapping[Clock, float]) -> Ranks:
        """Those that only overflow, watched, as `optimize` has them run.

        They run beside the naive: the machine may be faster or slower than it was in the heat.
        """
        found = [await self.field.instead(one) for one in self.field.overflown]
        watched = [one for one in found if one is not None]
        if not watched:
            return {}
        original = self.field.original
        now = await self._ranks([original, *watched])
        drift = {clock: naive[clock] / now[original][clock] for clock in Clock}
        return {
            one: {clock: now[one][clock] * drift[clock] for clock in Clock}
            for one in watched
            if one in now
        }

    async def _judge(self) -> Judge:
        arrays = Judge.drawn(self._row.program, self.field.inputs.draws, SEED)
        outputs = await self._run(self.field.original, arrays)
        if isinstance(outputs, Failure):
            raise OptimizeError(str(outputs))
        return Judge(self._row.program, arrays, outputs)

    async def _best(
        self, entrants: Sequence[CandidateSource], ranks: Ranks, judge: Judge, most: int = BEST
    ) -> list[CandidateSource]:
        """The first few by each clock of those that compute the same."""
        best: dict[CandidateSource, None] = {}
        for clock in Clock:
            count = 0
            for one in sorted(entrants, key=lambda one: ranks[one][clock]):
                if count == most:
                    break
                if await self._is_right(one, judge):
                    count += 1
                    best[one] = None
        return list(best)

    async def _is_right(self, one: CandidateSource, judge: Judge) -> bool:
        """Whether it computes the same on the inputs of the race; says why not.

        A kernel has to be one that `optimize` would take, too. Where one is not, then neither are
        others that compute the same program.
        """
        if one not in self._known and not self._is_refused(one):
            wrong = await self._objection(one, judge)
            if wrong:
                self.field.is_out(one, wrong)
            self._known[one] = not wrong and await self._is_taken(one)
        return self._known.get(one, False)

    def _is_refused(self, one: CandidateSource) -> bool:
        return one.kernels and one.form in self._refused and not one.watched

    async def _objection(self, one: CandidateSource, judge: Judge) -> str:
        before = await packer(self.field.executor, self._row.program, one, current_settings())
        if isinstance(before, Failure):
            return str(before)
        arrays = judge.arrays if before is None else await before.packed(judge.arrays)
        if isinstance(arrays, Failure):
            return str(arrays)
        outputs = await self._run(one, arrays)
        return str(outputs) if isinstance(outputs, Failure) else judge.objection(outputs)

    async def _run(
        self, one: CandidateSource, arrays: Sequence[Array]
    ) -> Sequence[Array] | Failure:
        return await self.field.executor.run(self.field.compiled[one], arrays)

    async def _is_taken(self, one: CandidateSource) -> bool:
        if not (one.kernels and self._thorough) or await self.field.agreeing(one) is not None:
            return True
        self._refused.add(one.form)
        return False


def _said(text: str) -> None:
    sys.stderr.write(f"{text}\n")
