"""A race of kernels: a heat of everyone, then the best of each kind at length, all in one process.

The best plain JAX of the heat comes first in the last race, and so is timed twice: that is the
noise. An entrant that computes something else is out.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from entrants import Entrants
from kernelrows import Row
from msgspec import Struct
from msgspec.structs import replace
from truthful import Judge

from aiosearch.measure import Compiled, Failure, JaxExecutor, Race, Ratio, Way
from aiosearch.measure.race import Clock
from aiosearch.optimizer.checking import check
from aiosearch.optimizer.contenders import Contender
from aiosearch.optimizer.effort import Budget
from aiosearch.optimizer.entering import Packer, candidate, packer
from aiosearch.optimizer.errors import OptimizeError
from aiosearch.optimizer.rewriting import Rewriter
from aiosearch.optimizer.settings import settings
from aiosearch.optimizer.suiting import Suited, suited
from aiosearch.optimizer.trials import Trials

HEAT = 9
"""Rounds of the first race."""
BEST = 2
"""Of each kind go on, by each clock."""

SEED = 0

Ranks: TypeAlias = Mapping[Contender, Mapping[Clock, float]]
"""What a call took in the heat."""


class Raced(Struct, frozen=True):
    """The last race of a row: the best plain JAX first, then more of it, the naive, and kernels."""

    row: Row
    race: Race
    entrants: tuple[Contender, ...]
    naive: int
    entered: int
    out: tuple[str, ...]
    """Who failed or computes something else, and why."""
    refused: tuple[int, ...] = ()
    """The places of kernels that `optimize` would not take."""

    @property
    def jax(self) -> list[int]:
        """The places of plain JAX, the naive among it."""
        return [at for at, one in enumerate(self.entrants) if not one.kernels and self._timed(at)]

    @property
    def kernels(self) -> list[int]:
        """The places of those that count."""
        places = [at for at, one in enumerate(self.entrants) if one.kernels and self._timed(at)]
        return [at for at in places if at not in self.refused]

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
    entrants: Entrants,
    executor: JaxExecutor,
    budget: Budget,
    process: Rewriter,
    thorough: bool = True,
) -> Raced:
    """Compiles, races, checks, and races again; raises OptimizeError where the naive fails.

    Thoroughly, the best kernels are checked as `optimize` does it, which refuses more.
    """
    racing = _Racing(row, executor, budget, process)
    everyone = [entrants.naive, *entrants.jax, *entrants.kernels]
    await racing.compile(everyone)
    last = await racing.last(entrants)
    race = await racing.race(last, budget.rounds)
    naive = last.index(entrants.naive)
    found = Raced(row, race, tuple(last), naive, len(everyone), tuple(racing.out))
    return await racing.without_refused(found) if thorough else found


class _Racing:
    def __init__(self, row: Row, executor: JaxExecutor, budget: Budget, process: Rewriter) -> None:
        self._row = row
        self._executor = executor
        self._budget = budget
        self._process = process
        self._compiled: dict[Contender, Compiled] = {}
        self.out: list[str] = []

    async def compile(self, everyone: Sequence[Contender]) -> None:
        """Compiles them, and has all draw inputs on which the naive is finite."""
        wanted = [candidate(self._row.program, one, settings()) for one in everyone]
        results = await asyncio.gather(*map(self._executor.compile, wanted))
        for one, found in zip(everyone, results, strict=True):
            if isinstance(found, Failure):
                self._drop(one, str(found))
            else:
                self._compiled[one] = found
        naive = everyone[0]
        if naive not in self._compiled:
            raise OptimizeError(self.out[0])
        self._suited = await self._suit(naive)
        self._compiled = {
            one: self._suited.on(each, one.beforehand.positions if one.beforehand else ())
            for one, each in self._compiled.items()
        }

    async def _suit(self, naive: Contender) -> Suited:
        compiled = self._compiled[naive]
        found = await suited(self._executor, self._row.program, compiled, SEED)
        if isinstance(found, Failure):
            raise OptimizeError(str(found))
        return found

    async def last(self, entrants: Entrants) -> list[Contender]:
        """Who runs in the last race, in its order."""
        ranks = await self._ranks()
        kernels = await self._tuned(ranks)
        judge = await self._judge(entrants.naive)
        jax = [one for one in entrants.jax if one in ranks]
        return [
            *await self._best(jax, ranks, judge),
            entrants.naive,
            *await self._best(list(kernels), kernels, judge),
        ]

    async def _ranks(self) -> Ranks:
        everyone = list(self._compiled)
        race = await self.race(everyone, HEAT)
        found = {}
        for one, lap in zip(everyone, race.laps, strict=True):
            if lap.failure is None:
                samples = lap.samples[race.deciding]
                found[one] = {clock: samples.median(clock) for clock in Clock}
            else:
                self._drop(one, str(lap.failure))
        return found

    async def _tuned(self, ranks: Ranks) -> Ranks:
        """The kernels that ran, and others near them that `optimize` would try, too."""
        known = {one: ranks[one] for one in ranks if one.kernels}
        if not known:
            return known
        best = min(known, key=lambda one: known[one][Clock.WALL])
        trials = Trials(
            self._executor, self._row.program, settings(), self._suited, self._process,
            self._compiled[best], known[best][Clock.WALL],
            lambda one, failure: self._drop(one, str(failure)),
        )  # fmt: skip
        taken = {one: seconds[Clock.WALL] for one, seconds in known.items()}
        found = await trials.run(taken, self._budget)
        self._compiled |= trials.compiled
        both = {one: dict.fromkeys(Clock, seconds) for one, seconds in found.items()}
        return {**known, **both}

    async def race(self, entrants: Sequence[Contender], rounds: int) -> Race:
        compiled = [self._compiled[one] for one in entrants]
        return await self._executor.race(compiled, seed=SEED, rounds=rounds)

    async def _judge(self, naive: Contender) -> Judge:
        arrays = Judge.drawn(self._row.program, self._suited.draws, SEED)
        outputs = await self._executor.run(self._compiled[naive], arrays)
        if isinstance(outputs, Failure):
            raise OptimizeError(str(outputs))
        return Judge(self._row.program, arrays, outputs)

    async def _best(
        self, entrants: Sequence[Contender], ranks: Ranks, judge: Judge
    ) -> list[Contender]:
        """The first few by each clock of those that compute the same."""
        known: dict[Contender, bool] = {}
        best: dict[Contender, None] = {}
        for clock in Clock:
            count = 0
            for one in sorted(entrants, key=lambda one: ranks[one][clock]):
                if count == BEST:
                    break
                if one not in known:
                    known[one] = await self._is_right(one, judge)
                if known[one]:
                    count += 1
                    best[one] = None
        return list(best)

    async def _is_right(self, one: Contender, judge: Judge) -> bool:
        """Whether it computes the same on the inputs of the race; says why not."""
        before = await self._packer(one)
        wrong = before if isinstance(before, str) else await self._objection(one, judge, before)
        if wrong:
            self._drop(one, wrong)
        return not wrong

    async def _objection(self, one: Contender, judge: Judge, before: Packer | None) -> str:
        arrays = judge.arrays if before is None else await before.packed(judge.arrays)
        if isinstance(arrays, Failure):
            return str(arrays)
        outputs = await self._executor.run(self._compiled[one], arrays)
        return str(outputs) if isinstance(outputs, Failure) else judge.objection(outputs)

    async def _packer(self, one: Contender) -> Packer | str | None:
        """What runs before it, or why that cannot."""
        found = await packer(self._executor, self._row.program, one, settings())
        return str(found) if isinstance(found, Failure) else found

    async def without_refused(self, found: Raced) -> Raced:
        """The same where the best kernel by each clock is one that `optimize` would take."""
        taken: set[int] = set()
        while unknown := {found.ours(clock) for clock in Clock if found.kernels} - taken:
            place = min(unknown)
            refusal = await self._refusal(found.entrants[place], found.entrants[found.naive])
            if refusal:
                self._drop(found.entrants[place], refusal)
                found = replace(found, out=tuple(self.out), refused=(*found.refused, place))
            else:
                taken.add(place)
        return found

    async def _refusal(self, one: Contender, naive: Contender) -> str:
        before = await self._packer(one)
        if isinstance(before, str):
            return before
        sides = self._compiled[naive], self._compiled[one]
        found = await check(
            self._executor, self._row.program, *sides, self._suited, before,
            seed=SEED, strict=False,
        )  # fmt: skip
        if isinstance(found, Failure):
            return str(found)
        return "" if found.outcome == "agree" else str(found)

    def _drop(self, one: Contender, why: str) -> None:
        self.out.append(f"{one.how}: {why}")
        sys.stderr.write(f"out: {self.out[-1]}\n")
