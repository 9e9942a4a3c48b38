"""The race of the whole function: what is faster alone need not be faster in its place.

Example: a function with two programs f and g, both faster alone. Raced are the function as written,
with both, with f only and with g only; XLA fuses g into what follows it, so that replacing g makes
that slower, and "only f" wins. The answer keeps the ids of what stands in the function
(`Evidence.kept`), so that the next process need not race.

Each arrangement is exported as StableHLO (`handback.exported`) and compiled in the executor's
process, on the arrays that the function was traced with. Cost: a compilation for each of at most 2
+ `MOST_TRIED_ALONE` arrangements, one race and one confirmation.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import jax
import msgspec
import numpy as np
from anyio import to_thread

from ...capture.jax_types import AbstractArray, Leaf, PyTree
from ...capture.names import title
from ...measure import ArrayType, Candidate, Compiled, Executor, Failure, Race, Way
from ..effort import Rung
from ..handback.exported import NAME, bits, bits_type, exported
from ..outcomes.answer import Answer, Key, Timings
from ..outcomes.evidence import Evidence, Tried
from ..outcomes.report import CALLED, WHOLE, Tell, times_by_mode
from ..trace.pieces import Subject
from ..trace.splice import Packed, Replacement, Spliced
from ..trace.traced import CutFunction, is_array
from .as_called import AsCalledTimes
from .selection import CONFIRMATION_SEED_OFFSET, decide_race, times, winners

MOST_TRIED_ALONE = 3
"""How many programs are also tried alone in their places: those that save most."""


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
    rung: Rung
    seed: int
    examples: Sequence[Leaf]
    """What the function was traced with: arrays, or `jax.ShapeDtypeStruct`s that stood for them."""
    tell: Tell
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
        compiled: list[Compiled] = []
        ids: list[list[str]] = []
        for name, subjects in {
            "the whole as written": (),
            **dict(_arrangements(cut, faster)),
        }.items():
            arrangement = await self._compiled(
                name, cut, {subject: loaded[subject] for subject in subjects}
            )
            if isinstance(arrangement, Failure):
                self.tell(f"as a whole, {arrangement}")
            if isinstance(arrangement, Compiled):
                compiled.append(arrangement)
                ids.append([faster[subject].id for subject in subjects])
            # The first arrangement is the function as written: without it there is nothing to
            # compare with.
            elif not compiled:
                return arrangement
        return await self._decided(key, title(cut.function, None), compiled, ids)

    async def _decided(
        self, key: Key, name: str, compiled: Sequence[Compiled], ids: Sequence[Sequence[str]]
    ) -> Answer | Failure:
        """The fastest that wins, and wins again alone; the first one is the function as it is."""
        race, hidden = await decide_race(lambda: self._race(compiled, self.seed), self.tell)
        in_doubt = bool(hidden)
        for lap in race.laps:
            if lap.failure is not None:
                self.tell(f"as a whole, {lap.failure}")
        if race.laps[0].failure is not None:
            return race.laps[0].failure
        # Alone against the original and with another seed: the winner of several is partly chosen
        # by its luck.
        for place in winners(race):
            pair = [compiled[0], compiled[place]]
            again = await self._race(pair, self.seed + CONFIRMATION_SEED_OFFSET)
            if again.wins(1):
                return self._answer(key, name, ids[place], again, 1, _tried(race, compiled, place))
            in_doubt |= again.hides(1)
        self.in_doubt = in_doubt
        return self._answer(key, name, (), race, 0, _tried(race, compiled, 0))

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
            rounds=self.rung.budget.rounds,
            seconds=self.rung.budget.race_seconds,
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
            self.rung.name,
            evidence=Evidence(
                speedup=ratio.median,
                between=(ratio.low, ratio.high),
                kept=tuple(ids),
                ways=times_by_mode(race, winner),
                tried=tried,
            ),
        )


def _tried(race: Race, compiled: Sequence[Compiled], winner: int) -> tuple[Tried, ...]:
    """How each arrangement fared in the race of all of them, the function as written first."""
    trials = []
    for place, arrangement in enumerate(compiled):
        speedup = race.speedup(place)
        name = arrangement.candidate.name
        if speedup is None:
            trials.append(Tried(name, None, None, str(race.laps[place].failure or "")))
            continue
        low, seconds, high = times(race, place)
        won = place == winner
        trials.append(Tried(name, seconds, speedup.median, low=low, high=high, won=won))
    return tuple(trials)


def _arrangements(
    cut: CutFunction, faster: Mapping[Subject, Answer]
) -> Iterator[tuple[str, frozenset[Subject]]]:
    """What is worth a trial: all that are faster, and the few that save most, each alone."""
    yield "all that are faster", frozenset(faster)
    if len(faster) > 1:
        # Each alone, since what pays together may be carried by one of them.
        ordered = sorted(faster, key=lambda subject: -_saved(cut, subject, faster[subject]))
        for place, subject in enumerate(ordered[:MOST_TRIED_ALONE]):
            yield f"only {subject.program.name}, {place}", frozenset({subject})


def _saved(cut: CutFunction, subject: Subject, answer: Answer) -> float:
    """Seconds of a call that an answer saves, by what it saved alone and how often the program
    occurs."""
    times = sum(piece.subject == subject for piece in cut.regions)
    return times * (answer.timings.original - answer.timings.answer)


def _value(example: Leaf, aval: AbstractArray) -> PyTree:
    """What a leaf is timed on: its own value as jax takes it; `None` where it stands for one."""
    if isinstance(example, jax.ShapeDtypeStruct):
        return None
    return bits(example) if is_array(example) else np.asarray(example, aval.dtype)


def _types(arrays: Sequence[Leaf]) -> tuple[ArrayType, ...]:
    # Random keys travel as their bits.
    types = map(bits_type, arrays)
    return tuple(ArrayType(str(array_type.dtype), tuple(array_type.shape)) for array_type in types)
