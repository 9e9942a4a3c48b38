"""Which contender wins: compiled, raced, checked on the device, in this order."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..equivalence.floats import FloatEvidence
from ..measure import Cause, Compiled, Executor, Failure, Race
from ..measure.ratios import interval, wins
from ..tensor import Program
from .checking import check
from .contenders import Contender
from .effort import Budget
from .entering import candidate, packer
from .errors import OptimizeError
from .made_for import Settings, settings
from .report import Tell, Tried
from .suiting import Suited, suited

MEMORY = """ (if it is a GPU's, this process may hold it: set XLA_PYTHON_CLIENT_PREALLOCATE=false \
before it loads jax)"""
AGAIN = 2
"""How often the last race is run again, where noise hides what seems faster."""


@dataclass(frozen=True)
class Selection:
    """The winner of a race, which is the original where nothing beat it."""

    winner: Contender
    race: Race
    entrants: tuple[Contender, ...]
    """In the race's order."""
    tried: tuple[Tried, ...]
    inputs: Suited
    """What it was run on."""
    otherwise: Contender
    """The winner of those that make nothing beforehand."""
    floats: FloatEvidence | None = None
    in_doubt: bool = False
    """Whether something seemed faster, and was not above the noise."""

    @property
    def plain(self) -> Contender:
        """The fastest of those that do what the original does."""
        return min((one for one in self.entrants if _is_plain(one)), key=self.seconds)

    def seconds(self, contender: Contender) -> float:
        place = self.entrants.index(contender)
        return math.inf if self.race.speedup(place) is None else _times(self.race, place)[1]

    def speedup(self, over: Contender) -> float:
        """How many times as fast as another the winner is, by paired rounds."""
        places = self.entrants.index(self.winner), self.entrants.index(over)
        ratio = self.race.speedup(places[0], over=places[1])
        assert ratio is not None
        return ratio.median


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
    _compiled: dict[Contender, Compiled] = field(default_factory=dict)
    _notes: dict[Contender, str] = field(default_factory=dict)
    _doubts: int = 0

    async def select(self, contenders: Sequence[Contender]) -> Selection:
        """Races them; raises OptimizeError where the original itself cannot be run."""
        await self._compile(contenders)
        original = contenders[0]
        self._require(original, original in self._compiled)
        inputs = await self._suit(original)
        self.tell(f"{len(self._compiled)} of {len(contenders)} compiled; racing on {inputs}")
        entrants, race = await self._last_race(await self._finalists())
        winner, floats = await self._winner(entrants, race, inputs)
        otherwise = winner
        if winner.beforehand is not None:
            otherwise, _ = await self._winner(entrants, race, inputs, beforehand=False)
        tried = self._tried(contenders, entrants, race)
        in_doubt = winner is original and self._doubts > 0
        return Selection(winner, race, entrants, tried, inputs, otherwise, floats, in_doubt)

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

    async def _finalists(self) -> list[Contender]:
        """Those that did best in a first race, where there are too many."""
        everyone = list(self._compiled)
        if len(everyone) <= self.budget.finalists + 1:
            return everyone
        entrants, race = await self._race(everyone, self.budget.rounds // 3)
        finalists = _fastest(entrants, race, self.budget.finalists)
        self._note_losers(entrants, race, finalists)
        self.tell(f"{len(finalists) - 1} beside the original in the last race")
        return finalists

    async def _last_race(
        self, finalists: Sequence[Contender]
    ) -> tuple[tuple[Contender, ...], Race]:
        """Again where noise hides what seems faster: it may pass."""
        while True:
            entrants, race = await self._race(finalists, self.budget.rounds)
            if not self._seems_hidden(entrants, race):
                return entrants, race
            self._doubts += 1
            if self._doubts > AGAIN:
                return entrants, race
            self.tell(f"a noise of {race.noise() or 0.0:.0%} hides what seems faster; racing again")

    def _seems_hidden(self, entrants: Sequence[Contender], race: Race) -> bool:
        places = [place for place, one in enumerate(entrants) if one not in self._notes]
        seems = [place for place in places if _seems_faster(race, place)]
        return bool(seems) and not any(race.wins(place) for place in seems)

    async def _race(
        self, entrants: Sequence[Contender], rounds: int
    ) -> tuple[tuple[Contender, ...], Race]:
        race = await self.executor.race(
            [self._compiled[one] for one in entrants],
            seed=self.seed,
            rounds=rounds,
            seconds=self.budget.race_seconds,
        )
        for contender, lap in zip(entrants, race.laps, strict=True):
            if lap.failure is not None:
                self._fails(contender, lap.failure)
        self._require(entrants[0], race.laps[0].failure is None)
        return tuple(entrants), race

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

    def _note_losers(
        self, entrants: Sequence[Contender], race: Race, finalists: Sequence[Contender]
    ) -> None:
        for place, contender in enumerate(entrants):
            if contender not in finalists and race.speedup(place) is not None:
                told = f"{_ratio(race, place):.2f} times in the first race"
                self._notes.setdefault(contender, told)

    async def _winner(
        self,
        entrants: Sequence[Contender],
        race: Race,
        inputs: Suited,
        *,
        beforehand: bool = True,
    ) -> tuple[Contender, FloatEvidence | None]:
        """The fastest that wins and that the device computes as well as the original."""
        original = entrants[0]
        places = [place for place in range(1, len(entrants)) if race.wins(place)]
        places.sort(key=lambda place: -_ratio(race, place))
        for place in places:
            contender = entrants[place]
            if contender in self._notes or (contender.beforehand is not None and not beforehand):
                continue
            self.tell(f"checking {contender.how} on the device")
            floats = await self._checked(original, contender, inputs)
            if isinstance(floats, Failure):
                self._fails(contender, floats)
            elif floats.outcome == "agree":
                return contender, floats
            else:
                self._notes[contender] = _objection(floats)
                self.tell(f"{contender.how} is {self._notes[contender]}")
        return original, None

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
        self, contenders: Sequence[Contender], entrants: Sequence[Contender], race: Race
    ) -> tuple[Tried, ...]:
        places = {contender: place for place, contender in enumerate(entrants)}
        return tuple(self._one_tried(one, places.get(one), race) for one in contenders)

    def _one_tried(self, contender: Contender, place: int | None, race: Race) -> Tried:
        note = self._notes.get(contender, "")
        verdict = contender.verdict[0] if contender.verdict else "its own operations"
        if place is None or race.speedup(place) is None:
            return Tried(contender.how, None, None, note, verdict)
        low, middle, high = _times(race, place)
        return Tried(contender.how, middle, _ratio(race, place), note, verdict, low, high)


def _objection(floats: FloatEvidence) -> str:
    """Why a candidate is not taken that the floats do not speak for."""
    if floats.outcome == "differ":
        return f"not as accurate: {floats}"
    return f"not to be judged, as no inputs tell: {floats}"


def _fastest(entrants: Sequence[Contender], race: Race, most: int) -> list[Contender]:
    """The original, its best spelling, and the few others that did best.

    One of these makes nothing beforehand.
    """
    places = [place for place in range(1, len(entrants)) if race.speedup(place) is not None]
    places.sort(key=lambda place: -_ratio(race, place))
    plain = [place for place in places if _is_plain(entrants[place])][:1]
    unpacked = [place for place in places if entrants[place].beforehand is None][:1]
    chosen = list(dict.fromkeys([*places[:most], *unpacked, *plain]))
    return [entrants[0], *(entrants[place] for place in chosen)]


def _is_plain(contender: Contender) -> bool:
    """Whether it does what the original does, when that does it."""
    return contender.form == 0 and contender.beforehand is None


def _seems_faster(race: Race, place: int) -> bool:
    ratio = race.speedup(place)
    return ratio is not None and wins(ratio, 0.0)


def _times(race: Race, place: int) -> tuple[float, float, float]:
    """The median of a contender's times, between the ends of its interval."""
    samples = race.laps[place].samples[race.ways[0]]
    cut, _ = interval(len(samples.wall))
    ordered = sorted(samples.wall)
    return ordered[cut], samples.median(), ordered[-1 - cut]


def _ratio(race: Race, place: int) -> float:
    ratio = race.speedup(place)
    return ratio.median if ratio is not None else 0.0
