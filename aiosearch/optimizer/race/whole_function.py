"""The race of the whole function: what is faster alone need not be faster in its place.

Example: a function with two programs f and g, both faster alone. Raced are the function as written,
with both, with f only and with g only; XLA fuses g into what follows it, so that replacing g makes
that slower, and "only f" wins. The answer keeps the ids of what stands in the function
(`Evidence.kept`), so that the next process need not race.

First all parts together are tried, what is predicted to pay, and the few parts that save most,
each alone; then, as long as it may get better, sets next to the best one (`arrangements`), against
the function as written and that best one.

Each arrangement is exported as StableHLO (`handback.exported`) and compiled in the executor's
process, on the arrays that the function was traced with. Cost: a compilation for each arrangement,
of which there are at most 3 + `MOST_TRIED_ALONE` + `MOST_STEPS * MOST_NEIGHBOURS`, a race for the
first ones and for each step, and one confirmation.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import jax
import msgspec
import numpy as np
from anyio import to_thread

from ...capture.jax_types import AbstractArray, Leaf, PyTree
from ...capture.names import title
from ...measure import ArrayType, Candidate, Compiled, Executor, Failure, Race, Way
from ..effort import NO_DEADLINE, Deadline, EffortStep
from ..handback.exported import NAME, bits, bits_type, exported
from ..outcomes.answer import Answer, Key, Timings
from ..outcomes.evidence import Evidence, Tried
from ..outcomes.report import CALLED, WHOLE, Tell, times_by_mode
from ..trace.pieces import Subject
from ..trace.splice import Packed, Replacement, Spliced
from ..trace.traced import CutFunction, is_array
from .arrangements import (
    ArrangementModel,
    Parts,
    arrangement_name,
    occurrences,
    predicted_saving,
)
from .as_called import AsCalledTimes
from .selection import (
    CONFIRMATION_SEED_OFFSET,
    decide_race,
    describe_slower_modes,
    ratio,
    times,
)

MOST_TRIED_ALONE = 3
"""How many programs are also tried alone in their places: those that save most."""
STEP_SECONDS = 4.0
"""Seconds of `Budget.race_seconds` for each time that sets next to the best one are tried: once
with little effort, and not at all in a first look."""
MOST_STEPS = 6
"""How often they are tried at most."""
MOST_NEIGHBOURS = 3
"""How many sets are tried in a step."""


def is_single_program(cut: CutFunction) -> bool:
    """Whether the function is one program and nothing else, and so was raced already.

    Then it takes all arrays as arguments: those that were closed over, XLA may prepare itself.
    """
    # Pieces without inputs only make constants.
    taking = [piece for piece in cut.pieces if piece.inputs]
    # A loop is one piece too, of which its programs are parts.
    return (
        len(taking) == 1
        and not taking[0].bodies
        and not any(var in cut.flat.constants for var in taking[0].inputs)
    )


def whole_key(key: Key, cut: CutFunction, faster: Mapping[Subject, Answer]) -> Key:
    """Names the function and what is to stand in it, for the device and versions of `key`."""
    # Functions among the parameters print their address, which differs in each process.
    texts = [re.sub(r" at 0x[0-9a-f]+", "", str(piece.jaxpr)) for piece in cut.pieces]
    # Their sources and not their ids: an answer that was found again with more effort is another
    # question.
    texts += sorted(answer.source for answer in faster.values())
    name = hashlib.blake2b("\0".join(texts).encode(), digest_size=16).hexdigest()
    return msgspec.structs.replace(
        key,
        program=f"whole {name}",
        types=tuple(map(str, _types(cut.avals))),
        constant=tuple(sorted(cut.constant)),
    )


def called_key(key: Key, cut: CutFunction, faster: Mapping[Subject, Answer]) -> Key:
    """Names the function as it is called, with what is to stand in it."""
    key_of_whole = whole_key(key, cut, faster)
    return msgspec.structs.replace(key_of_whole, program=f"called {key_of_whole.program}")


def called_answer(key: Key, cut: CutFunction, called: AsCalledTimes, effort: str) -> Answer:
    """What is remembered of a function that was called here, against itself compiled."""
    race, ratio = called.race, called.ratio
    queued = race.speedup(1, way=Way.QUEUED)
    tails = {way.value: race.tail(1, way) for way in race.ways}
    return Answer(
        key,
        f"{title(cut.function, None)}{CALLED}",
        "",
        "",
        ("called in the user's own process",),
        Timings(called.original, called.original, called.fast, 1 + (race.noise() or 0.0)),
        called.faster,
        effort,
        evidence=Evidence(
            speedup=ratio.median,
            between=(ratio.low, ratio.high),
            queued=None if queued is None else queued.median,
            queued_between=None if queued is None else (queued.low, queued.high),
            ways=times_by_mode(race, 1),
            tails={
                way: (tail.median, tail.low, tail.high)
                for way, tail in tails.items()
                if tail is not None
            },
            slower=called.slower,
            called=True,
        ),
    )


def confirmed(answer: Answer, called: Answer) -> Answer:
    """An answer with the figures of the race that confirmed it: those of its calls, where the
    drop-in was called.

    How it compares with plain JAX was not called, and is scaled: less is claimed where less of the
    gain is left, never more than the executor's race showed, and never more than over the original,
    which is plain JAX too.
    """
    evidence, claim = answer.evidence, called.evidence
    left = min(1.0, called.median_speedup / answer.median_speedup)
    over, between = evidence.speedup_over_plain, evidence.over_plain_between
    # What is plain JAX itself is not compared with anything.
    if over is not None and over != 1:
        over = max(1.0, min(over * left, called.median_speedup))
        if between is not None and claim.between is not None:
            ends = zip(between, claim.between, strict=True)
            low, high = (max(1.0, min(end * left, most)) for end, most in ends)
            between = low, high
    seconds = called.timings.answer
    return msgspec.structs.replace(
        answer,
        timings=msgspec.structs.replace(called.timings, plain=seconds * (over or 1.0)),
        evidence=msgspec.structs.replace(
            evidence,
            speedup=claim.speedup,
            between=claim.between,
            speedup_over_plain=over,
            over_plain_between=between,
            queued=claim.queued,
            queued_between=claim.queued_between,
            ways={**evidence.ways, **claim.ways},
            tails=claim.tails,
            called=True,
        ),
    )


def describe_slower_as_called(name: str, answer: Answer) -> str:
    """Why a function is left alone that was not faster where it was called."""
    evidence = answer.evidence
    assert evidence.between is not None, "an answer for a call has its interval"
    low, high = evidence.between
    outcome = f"{name} is left as it is: called here, what is faster on the device was"
    if evidence.slower:
        return f"{outcome} slower: {evidence.slower}"
    noise = answer.timings.noise - 1
    return f"{outcome} {low:.2f} to {high:.2f} times as fast, which a noise of {noise:.1%} hides"


def stored_arrangement(answer: Answer, faster: Mapping[Subject, Answer]) -> dict[Subject, Answer]:
    """What stands in the function, by the ids that an answer for it keeps."""
    return {
        subject: stored
        for subject, stored in faster.items()
        if stored.id in (answer.evidence.kept or ())
    }


@dataclass
class WholeRace:
    """Races a function against itself with answers in the places of its programs."""

    executor: Executor
    step: EffortStep
    seed: int
    examples: Sequence[Leaf]
    """What the function was traced with: arrays, or `jax.ShapeDtypeStruct`s that stood for them."""
    tell: Tell
    deadline: Deadline = NO_DEADLINE
    """After this, only the function as written and all parts together are tried, and once."""
    in_doubt: bool = field(default=False, init=False)
    """Whether the answer is the function as it is, and noise may hide that another arrangement is
    faster."""

    async def answer(
        self,
        key: Key,
        cut: CutFunction,
        faster: Mapping[Subject, Answer],
        loaded: Mapping[Subject, Replacement | Packed],
    ) -> Answer | Failure:
        """The answers that stay; a `Failure` where the function as it is cannot be timed elsewhere.

        An arrangement that fails is out alone.
        """
        search = _ArrangementSearch(cut, faster, loaded)
        trials = await self._tried_first(search)
        if isinstance(trials, Failure):
            return trials
        race, in_doubt = await self._raced(search, trials)
        if race.laps[0].failure is not None:
            return race.laps[0].failure
        for _ in range(min(MOST_STEPS, int(self.step.budget.race_seconds / STEP_SECONDS))):
            if self.deadline.passed:
                break
            further = await self._stepped(search)
            if not further:
                break
            trials = [trials[0], *further]
            race, hidden = await self._raced(search, trials)
            in_doubt |= hidden
            if race.laps[0].failure is not None:
                return race.laps[0].failure
        return await self._decided(key, title(cut.function, None), search, in_doubt)

    async def _tried_first(self, search: _ArrangementSearch) -> list[_CompiledParts] | Failure:
        """The function as written, and what is worth a trial before anything was timed."""
        trials: list[_CompiledParts] = []
        for parts in search.first():
            if len(trials) > 1 and self.deadline.passed:
                break
            trial = await self._trial(search, parts)
            # The first arrangement is the function as written: without it there is nothing to
            # compare with.
            if isinstance(trial, Failure) and not trials:
                return trial
            if isinstance(trial, _CompiledParts):
                trials.append(trial)
        return trials

    async def _stepped(self, search: _ArrangementSearch) -> list[_CompiledParts]:
        """The best arrangement, and sets next to it that may be better; nothing where there are
        none."""
        best = search.best
        saved = search.seconds_saved(best.parts) if best else 0.0
        proposed = search.model.proposed(
            best.parts if best else frozenset(), saved, MOST_NEIGHBOURS
        )
        trials = [await self._trial(search, parts) for parts in proposed]
        new = [trial for trial in trials if isinstance(trial, _CompiledParts)]
        return [*([best] if best else []), *new] if new else []

    async def _trial(self, search: _ArrangementSearch, parts: Parts) -> _CompiledParts | Failure:
        """An arrangement, compiled; one that fails is told, and out."""
        search.model.begun(parts)
        name = search.name(parts)
        compiled = await self._compiled(name, search.cut, search.replacements(parts))
        if isinstance(compiled, Failure):
            self.tell(f"as a whole, {compiled}")
            return compiled
        return _CompiledParts(parts, compiled)

    async def _raced(
        self, search: _ArrangementSearch, trials: Sequence[_CompiledParts]
    ) -> tuple[Race, bool]:
        """A race of arrangements, the function as written first, and whether noise hides a gain."""
        compiled = [trial.compiled for trial in trials]
        race, hidden = await decide_race(
            lambda: self._race(compiled, self.seed), self.tell, deadline=self.deadline
        )
        for lap in race.laps:
            if lap.failure is not None:
                self.tell(f"as a whole, {lap.failure}")
        if race.laps[0].failure is None:
            search.learn(trials, race)
        return race, bool(hidden)

    async def _decided(
        self, key: Key, name: str, search: _ArrangementSearch, in_doubt: bool
    ) -> Answer | Failure:
        """The fastest that wins, and wins again alone; the first one is the function as it is."""
        # Alone against the original and with another seed: the winner of several is partly chosen
        # by its luck.
        for trial in search.winners:
            pair = [search.written.compiled, trial.compiled]
            racing = partial(self._race, pair, self.seed + CONFIRMATION_SEED_OFFSET)
            again, _ = await decide_race(racing, self.tell, deadline=self.deadline)
            if again.wins(1):
                ids = [search.faster[subject].id for subject in search.subjects(trial.parts)]
                return self._answer(key, name, ids, again, 1, search.trials(trial))
            in_doubt |= again.hides(1)
        self.in_doubt = in_doubt
        return self._answer(key, name, (), search.last, 0, search.trials(search.written))

    async def _compiled(
        self, name: str, cut: CutFunction, replacements: Mapping[Subject, Replacement | Packed]
    ) -> Compiled | Failure:
        """The function with these replacements, compiled on what it was traced with."""
        spliced = Spliced(cut, replacements)
        module = await to_thread.run_sync(exported, spliced, cut.settings)
        if isinstance(module, Failure):
            return module
        types = _types([*module.packs, *cut.avals])
        leaves = map(_value, self.examples, cut.avals)
        constants = {
            at: array for at, array in enumerate([*module.packs, *leaves]) if array is not None
        }
        return await self.executor.compile(
            Candidate(name, module.source, NAME, types, constants, x64=module.x64)
        )

    async def _race(self, compiled: Sequence[Compiled], seed: int) -> Race:
        return await self.executor.race(
            compiled,
            seed=seed,
            rounds=self.step.budget.rounds,
            seconds=self.step.budget.race_seconds,
        )

    def _answer(
        self,
        key: Key,
        name: str,
        ids: Sequence[str],
        race: Race,
        winner: int,
        tried: tuple[Tried, ...],
    ) -> Answer:
        ratio = race.speedup(winner)
        assert ratio is not None
        original, fast = (race.laps[at].samples[race.deciding].median() for at in (0, winner))
        return Answer(
            key,
            f"{name}{WHOLE}",
            "",
            "",
            ("the answers that are kept in it are verified each",),
            Timings(original, original, fast, 1 + (race.noise() or 0.0)),
            winner > 0,
            self.step.name,
            evidence=Evidence(
                speedup=ratio.median,
                between=(ratio.low, ratio.high),
                kept=tuple(ids),
                ways=times_by_mode(race, winner),
                tried=tried,
            ),
        )


@dataclass(frozen=True)
class _CompiledParts:
    """An arrangement that was compiled."""

    parts: Parts
    compiled: Compiled


class _ArrangementSearch:
    """The parts of a function that are faster alone, and how arrangements of them fared."""

    def __init__(
        self,
        cut: CutFunction,
        faster: Mapping[Subject, Answer],
        loaded: Mapping[Subject, Replacement | Packed],
    ) -> None:
        self.cut, self.faster, self._loaded = cut, faster, loaded
        counts = occurrences(cut)
        savings = {
            subject: predicted_saving(answer, counts[subject]) for subject, answer in faster.items()
        }
        # In order of what they should save, which their names and numbers have too.
        self._subjects = sorted(faster, key=lambda subject: -savings[subject].mean)
        self._names = [
            f"{subject.program.name}, {place}" for place, subject in enumerate(self._subjects)
        ]
        self.model = ArrangementModel([savings[subject] for subject in self._subjects])
        self._outcomes: dict[Parts, _Outcome] = {}
        self.written: _CompiledParts
        """The function as it is."""
        self.last: Race
        """The race that was run last."""

    def first(self) -> list[Parts]:
        """The function as written, all parts, those that should pay, and the few that should save
        most, each alone: what pays together may be carried by one of them."""
        alone = [frozenset({part}) for part in self.model.order]
        likely = [parts for parts in alone if self.model.saving(parts) > 0]
        none: Parts = frozenset()
        sets = [none, self.model.all_parts, none.union(*likely), *alone[:MOST_TRIED_ALONE]]
        return [*dict.fromkeys(sets)]

    def name(self, parts: Parts) -> str:
        return arrangement_name(parts, self._names) if parts else "the whole as written"

    def subjects(self, parts: Parts) -> list[Subject]:
        return [self._subjects[part] for part in sorted(parts)]

    def replacements(self, parts: Parts) -> dict[Subject, Replacement | Packed]:
        return {subject: self._loaded[subject] for subject in self.subjects(parts)}

    def learn(self, trials: Sequence[_CompiledParts], race: Race) -> None:
        """Takes in how arrangements fared, the function as written first."""
        self.written, self.last = trials[0], race
        written = race.laps[0].samples[race.deciding].median()
        for place, trial in enumerate(trials):
            speedup = race.speedup(place)
            if speedup is not None:
                # An interval of 95 % is four deviations wide.
                deviation = written * (1 / speedup.low - 1 / speedup.high) / 4
                saved = written * (1 - 1 / speedup.median)
                if place:
                    self.model.learn(trial.parts, saved, deviation)
                self._outcomes[trial.parts] = _Outcome(trial, race, place, saved)
            elif trial.parts not in self._outcomes:
                self._outcomes[trial.parts] = _Outcome(trial, race, place, 0.0)

    def seconds_saved(self, parts: Parts) -> float:
        """What an arrangement saved when it was timed last."""
        return self._outcomes[parts].saved

    @property
    def winners(self) -> list[_CompiledParts]:
        """Those that beat the function as written, the fastest first."""
        winning = [
            outcome
            for outcome in self._outcomes.values()
            if outcome.place and outcome.race.wins(outcome.place)
        ]
        ordered = sorted(winning, key=lambda outcome: -ratio(outcome.race, outcome.place))
        return [outcome.trial for outcome in ordered]

    @property
    def best(self) -> _CompiledParts | None:
        """The first of the `winners`; `None` where there is none."""
        return next(iter(self.winners), None)

    def trials(self, winner: _CompiledParts) -> tuple[Tried, ...]:
        """How each arrangement fared in its last race, the function as written first."""
        return tuple(
            outcome.told(won=outcome.trial.parts == winner.parts)
            for outcome in self._outcomes.values()
        )


@dataclass(frozen=True)
class _Outcome:
    """How an arrangement fared in a race, at its place there."""

    trial: _CompiledParts
    race: Race
    place: int
    saved: float
    """Seconds of a call, over the function as written."""

    def told(self, *, won: bool) -> Tried:
        """The outcome, for the report."""
        name = self.trial.compiled.name
        speedup = self.race.speedup(self.place)
        if speedup is None:
            return Tried(name, None, None, str(self.race.laps[self.place].failure or ""))
        low, seconds, high = times(self.race, self.place)
        note = describe_slower_modes(self.race, self.place)
        return Tried(name, seconds, speedup.median, note, low=low, high=high, won=won)


def _value(example: Leaf, aval: AbstractArray) -> PyTree:
    """What a leaf is timed on: its own value as jax takes it; `None` where it stands for one."""
    if isinstance(example, jax.ShapeDtypeStruct):
        return None
    return bits(example) if is_array(example) else np.asarray(example, aval.dtype)


def _types(arrays: Sequence[Leaf]) -> tuple[ArrayType, ...]:
    # Random keys travel as their bits.
    types = map(bits_type, arrays)
    return tuple(ArrayType(str(array_type.dtype), tuple(array_type.shape)) for array_type in types)
