"""Which contender wins: compiled, raced, checked on the device, in this order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ..equivalence.floats import FloatEvidence
from ..measure import Cause, Compiled, Executor, Failure, Race
from ..tensor import Program
from .checking import check
from .contenders import Contender
from .deciding import CONFIRMING, decided, ratio, winning
from .effort import Budget
from .entering import candidate, packer
from .errors import OptimizeError
from .losing import lost, noise, objection
from .report import Tell, Tried
from .selection import Heat, Selection, times
from .settings import Settings, settings
from .suiting import Suited, suited
from .trials import Maker, Trials

MEMORY = """ (if it is a GPU's, this process may hold it: set XLA_PYTHON_CLIENT_PREALLOCATE=false \
before it loads jax)"""


_NEAR = 1.5
"""Kernels that take so many times as long as the fastest are not worth further trials."""
_TUNED = 2
"""So many of those that were tried further enter the last race."""


@dataclass
class Selector:
    """Chooses for one program."""

    executor: Executor
    program: Program
    budget: Budget
    seed: int
    strict: bool
    tell: Tell
    settings: Settings = field(default_factory=settings)
    """Under which the winner will run."""
    maker: Maker | None = None
    """Makes further kernels, beside those among the contenders."""
    _compiled: dict[Contender, Compiled] = field(default_factory=dict)
    _notes: dict[Contender, str] = field(default_factory=dict)
    _finals: dict[Contender, Heat] = field(default_factory=dict)
    _further: list[Contender] = field(default_factory=list)
    _in_doubt: bool = False

    async def select(self, contenders: Sequence[Contender]) -> Selection:
        """Races them; raises OptimizeError where the original itself cannot be run."""
        await self._compile(contenders)
        original = contenders[0]
        self._require(original, original in self._compiled)
        inputs = await self._suit(original)
        self.tell(f"{len(self._compiled)} of {len(contenders)} compiled; racing on {inputs}")
        last = await self._last_race(await self._finalists(inputs))
        winner, floats = await self._winner(last, inputs)
        otherwise = winner
        if winner.beforehand is not None:
            otherwise, _ = await self._winner(last, inputs, beforehand=False)
        final = self._finals.get(winner, last)
        tried = self._tried([*contenders, *self._further], last, winner)
        in_doubt = winner is original and self._in_doubt
        return Selection(winner, last, final, tried, inputs, otherwise, floats, in_doubt)

    async def _compile(self, contenders: Sequence[Contender]) -> None:
        async with asyncio.TaskGroup() as group:
            for contender in contenders:
                group.create_task(self._compile_one(contender))
        order = {contender: place for place, contender in enumerate(contenders)}
        self._compiled = dict(sorted(self._compiled.items(), key=lambda item: order[item[0]]))

    async def _compile_one(self, contender: Contender) -> None:
        found = await self.executor.compile(candidate(self.program, contender, self.settings))
        if isinstance(found, Failure):
            self._fails(contender, found)
        else:
            self._compiled[contender] = found

    async def _suit(self, original: Contender) -> Suited:
        """Has all of them draw inputs on which the original is finite."""
        found = await suited(self.executor, self.program, self._compiled[original], self.seed)
        if isinstance(found, Failure):
            self._fails(original, found)
            raise OptimizeError(self._not_running(original))
        self._compiled = {
            one: found.on(compiled, one.beforehand.positions if one.beforehand else ())
            for one, compiled in self._compiled.items()
        }
        return found

    async def _finalists(self, inputs: Suited) -> list[Contender]:
        """Those that did best in a first race, where there are too many, and kernels near them."""
        everyone = list(self._compiled)
        if len(everyone) <= self.budget.finalists + 1:
            return everyone
        first = await self._race(everyone, self.budget.rounds // 3)
        finalists = first.best(self.budget.finalists)
        self._note_losers(first, finalists)
        finalists += await self._tuned(first, inputs)
        self.tell(f"{len(finalists) - 1} beside the original in the last race")
        return finalists

    async def _tuned(self, first: Heat, inputs: Suited) -> list[Contender]:
        """The best kernels near those that ran, where one of these is among the fastest."""
        if self.maker is None or not self.budget.trials:
            return []
        taken = {one: first.seconds(one) for one in first.entrants}
        kernels = {one: seconds for one, seconds in taken.items() if one.kernels}
        best = min(kernels, key=lambda one: kernels[one], default=None)
        if best is None or kernels[best] > _NEAR * min(taken.values()):
            return []
        self.tell(f"trying kernels like {best.how}")
        trials = Trials(
            self.executor, self.program, self.settings, inputs, self.maker,
            self._compiled[best], kernels[best], self._fails,
        )  # fmt: skip
        found = await trials.run(kernels, self.budget)
        self._compiled |= trials.compiled
        self._further = list(trials.compiled)
        chosen = [one for one in found if found[one] < kernels[best]][:_TUNED]
        for one in found.keys() - set(chosen):
            told = f"{taken[first.entrants[0]] / found[one]:.2f} times in a trial"
            self._notes.setdefault(one, told)
        return chosen

    async def _last_race(self, finalists: Sequence[Contender]) -> Heat:
        async def racing() -> Race:
            return (await self._race(finalists, self.budget.rounds)).race

        def counts(place: int) -> bool:
            return finalists[place] not in self._notes

        race, self._in_doubt = await decided(racing, self.tell, counts)
        return Heat(tuple(finalists), race)

    async def _race(self, entrants: Sequence[Contender], rounds: int, seed: int = 0) -> Heat:
        race = await self.executor.race(
            [self._compiled[one] for one in entrants],
            seed=self.seed + seed,
            rounds=rounds,
            seconds=self.budget.race_seconds,
        )
        for contender, lap in zip(entrants, race.laps, strict=True):
            if lap.failure is not None:
                self._fails(contender, lap.failure)
        self._require(entrants[0], race.laps[0].failure is None)
        return Heat(tuple(entrants), race)

    def _fails(self, contender: Contender, failure: Failure) -> None:
        told = str(failure)
        if failure.cause is Cause.MEMORY:
            told += MEMORY
        self._notes[contender] = told
        self.tell(told)

    def _require(self, original: Contender, runs: bool) -> None:
        if not runs:
            raise OptimizeError(self._not_running(original))

    def _not_running(self, original: Contender) -> str:
        return f"the original does not run: {self._notes[original]}"

    def _note_losers(self, first: Heat, finalists: Sequence[Contender]) -> None:
        for place, contender in enumerate(first.entrants):
            if contender not in finalists and first.race.speedup(place) is not None:
                told = f"{ratio(first.race, place):.2f} times in the first race"
                self._notes.setdefault(contender, told)

    async def _winner(
        self, last: Heat, inputs: Suited, *, beforehand: bool = True
    ) -> tuple[Contender, FloatEvidence | None]:
        """The fastest that wins, here and alone, and that the device computes as well."""
        for place in winning(last.race):
            contender = last.entrants[place]
            if contender in self._notes or (contender.beforehand is not None and not beforehand):
                continue
            floats = await self._agreeing(last.entrants[0], contender, inputs)
            if floats is not None and await self._confirmed(last, contender):
                return contender, floats
        return last.entrants[0], None

    async def _agreeing(
        self, original: Contender, contender: Contender, inputs: Suited
    ) -> FloatEvidence | None:
        """What speaks for a contender; nothing where it is out."""
        self.tell(f"checking {contender.how} on the device")
        try:
            floats = await self._checked(original, contender, inputs)
        except OptimizeError as error:  # the judge's failure, and nobody else's
            self._is_out(contender, f"not judged: {error}")
            return None
        if isinstance(floats, Failure):
            self._fails(contender, floats)
            return None
        if floats.outcome == "agree" and not floats.unseen:
            return floats
        self._is_out(contender, objection(floats))
        return None

    async def _confirmed(self, last: Heat, contender: Contender) -> bool:
        """Whether it wins once more, on other inputs, without those that it was chosen from."""
        alone = dict.fromkeys([last.entrants[0], contender, last.plain])
        self.tell(f"racing {contender.how} once more, to confirm it")
        final = await self._race(list(alone), self.budget.rounds, CONFIRMING)
        if final.race.wins(1):
            self._finals[contender] = final
            return True
        self._in_doubt |= final.race.seems(1)
        if final.race.speedup(1) is not None:
            told = f"{ratio(final.race, 1):.2f} times in a race of its own"
            self._is_out(contender, f"not confirmed: {told}, with noise {noise(final.race)}")
        return False

    def _is_out(self, contender: Contender, why: str) -> None:
        self._notes[contender] = why
        self.tell(f"{contender.how} is {why}")

    async def _checked(
        self, original: Contender, contender: Contender, inputs: Suited
    ) -> FloatEvidence | Failure:
        before = await packer(self.executor, self.program, contender, self.settings)
        if isinstance(before, Failure):
            return before
        return await check(
            self.executor,
            self.program,
            self._compiled[original],
            self._compiled[contender],
            inputs,
            before,
            seed=self.seed,
            strict=self.strict,
        )

    def _tried(
        self, contenders: Sequence[Contender], last: Heat, winner: Contender
    ) -> tuple[Tried, ...]:
        places = {contender: place for place, contender in enumerate(last.entrants)}
        found = {one: self._one_tried(one, places.get(one), last.race) for one in contenders}
        found[winner] = replace(found[winner], won=True)
        return tuple(found.values())

    def _one_tried(self, contender: Contender, place: int | None, race: Race) -> Tried:
        note = self._notes.get(contender, "")
        verdict = contender.verdict[0] if contender.verdict else "its own operations"
        if place is None or race.speedup(place) is None:
            return Tried(contender.how, None, None, note, verdict)
        low, middle, high = times(race, place)
        found = ratio(race, place)
        return Tried(contender.how, middle, found, note or lost(race, place), verdict, low, high)
