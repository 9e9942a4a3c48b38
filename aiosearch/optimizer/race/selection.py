"""When a race is decided, and what comes of a selection.

Problem: of twenty candidates on a noisy machine, some look faster than the original by chance.
`decide_race` runs a race again where noise may hide a gain, and whoever wins has to win once more,
alone, on other inputs (`CONFIRMATION_SEED_OFFSET`), since the best of many is chosen for its luck
as well.

Example, on a machine where the original against itself reaches 1.02: a median ratio of 1.05 in the
interval [1.02, 1.08] wins, as it is above the noise and above `LEAST_GAIN` of 3 %; 1.02 in [0.98,
1.07] may hide a gain, and the race runs again, up to `RACE_RERUNS` times; 0.95 in [0.90, 0.99]
lost.

Where a call takes long, six rounds are all that there is time for, and the farthest of them is the
end of an interval. So the rounds of all these races count together: those of three leave out four
at either end.

`describe_objection` and its neighbours say in words why a contender is not taken.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from ...equivalence import FloatEvidence
from ...measure import Race, Ratio
from ...measure.ratios import interval
from ..candidates.generation import CandidateSource
from ..effort import NO_DEADLINE, Deadline
from ..outcomes.evidence import Tried
from ..outcomes.report import Tell
from .benchmark_inputs import BenchmarkInputs

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[CandidateSource, ...]).decode


def encoded_guesses(original: CandidateSource, guesses: Sequence[CandidateSource]) -> str:
    """The text of `Answer.guesses`."""
    return _encode((original, *guesses)).decode()


def decoded_guesses(guesses: str) -> tuple[CandidateSource, ...]:
    """The contenders of the race that decides, the original first."""
    return _decode(guesses)


RACE_RERUNS = 2
"""How often a race is run again, where noise may hide what is faster."""
CONFIRMATION_SEED_OFFSET = 1
"""Added to the seed of a race that confirms: its inputs are others, at other addresses."""

Racing: TypeAlias = Callable[[], Awaitable[Race]]
"""Runs a race once more."""


async def decide_race(
    racing: Racing,
    tell: Tell,
    counts: Callable[[int], bool] = lambda place: True,
    deadline: Deadline = NO_DEADLINE,
) -> tuple[Race, list[int]]:
    """A race, run again where noise may hide what is faster; and the places of what it hides still.

    Rounds of later races are added to those before (`Race.joined`): three races of six rounds
    that each leave it open may tell it together. Only contenders that `counts` says yes to are
    looked at, by their places. Where something wins the race is not run again, though others may be
    hidden, which matters if the winner cannot be taken. Whoever wins was raced until something did,
    and as the fastest of several: it has to win a race of its own too. After the `deadline` none is
    run again.
    """
    race = await racing()
    for left in range(RACE_RERUNS, -1, -1):
        hidden = [*filter(race.hides, filter(counts, range(1, len(race.laps))))]
        if not hidden or not left or deadline.passed or winners(race, counts):
            break
        tell(f"a noise of {race.noise() or 0.0:.0%} hides what may be faster; racing again")
        race = race.joined(await racing())
    return race, sorted(hidden, key=lambda place: -ratio(race, place))


def winners(race: Race, counts: Callable[[int], bool] = lambda place: True) -> list[int]:
    """The places of those that beat the first one, the fastest first."""
    places = [place for place in range(1, len(race.laps)) if counts(place) and race.wins(place)]
    return sorted(places, key=lambda place: -ratio(race, place))


def apparent_winners(race: Race) -> list[int]:
    """The places of those that would beat the first one on a machine without noise."""
    return [place for place in range(1, len(race.laps)) if race.seems(place)]


def ratio(race: Race, place: int) -> float:
    """How many times as fast as the first one it is; 0 where it has no times."""
    speedup = race.speedup(place)
    return speedup.median if speedup is not None else 0.0


@dataclass(frozen=True)
class RaceResult:
    """A race, and who ran in it: the original first."""

    entrants: tuple[CandidateSource, ...]
    race: Race

    def plain(self, out: Collection[CandidateSource] = ()) -> CandidateSource:
        """The fastest plain JAX that is not `out`, rewritten or not; the original at worst."""
        left = [
            entrant
            for place, entrant in enumerate(self.entrants)
            # What is slower than the original in some way could not be taken in its place.
            if is_plain(entrant) and entrant not in out and not self.race.lost(place)
        ]
        return min([self.entrants[0], *left], key=self.seconds)

    def spelling(self, out: Collection[CandidateSource] = ()) -> CandidateSource:
        """The fastest spelling of the original's own operations that is not `out`."""
        left = [entrant for entrant in self.entrants if is_spelling(entrant) and entrant not in out]
        return min([self.entrants[0], *left], key=self.seconds)

    def seconds(self, contender: CandidateSource) -> float:
        place = self.entrants.index(contender)
        # A candidate without times never is the fastest.
        return math.inf if self.race.speedup(place) is None else times(self.race, place)[1]

    def ratio(self, contender: CandidateSource, over: CandidateSource) -> Ratio | None:
        """How many times as fast as `over` it is, by paired rounds; `None` where one of them has no
        times."""
        places = self.entrants.index(contender), self.entrants.index(over)
        return self.race.speedup(places[0], over=places[1])

    def speedup(self, contender: CandidateSource, over: CandidateSource) -> float:
        """The median of `ratio`; 0 where there is none."""
        ratio_of_rounds = self.ratio(contender, over)
        return 0.0 if ratio_of_rounds is None else ratio_of_rounds.median

    def best(self, most: int, out: Collection[CandidateSource] = ()) -> list[CandidateSource]:
        """The original, its best spelling, the best plain JAX, and the `most` others that did best
        and are not `out`.

        One of them makes nothing beforehand, as calls with other weights need one.
        """
        left = [
            place for place, entrant in enumerate(self.entrants) if place and entrant not in out
        ]
        timed = [place for place in left if self.race.speedup(place) is not None]
        places = sorted(timed, key=lambda place: -ratio(self.race, place))
        plain = [place for place in places if is_plain(self.entrants[place])][:1]
        spelled = [place for place in places if is_spelling(self.entrants[place])][:1]
        # Where weights are not the same from call to call, only a candidate that packs nothing can
        # run.
        unpacked = [place for place in places if self.entrants[place].beforehand is None][:1]
        chosen = dict.fromkeys([*places[:most], *unpacked, *plain, *spelled])
        return [self.entrants[0], *(self.entrants[place] for place in chosen)]


@dataclass(frozen=True)
class Selection:
    """What a `Selector` decides: the winner, which is the original where nothing beat it."""

    winner: CandidateSource
    last: RaceResult
    """The race of all that were left."""
    final: RaceResult
    """The race that confirmed the winner, against the original and the best plain JAX alone."""
    tried: tuple[Tried, ...]
    inputs: BenchmarkInputs
    """What the races ran on."""
    otherwise: CandidateSource
    """The winner of those that make nothing beforehand."""
    floats: FloatEvidence | None = None
    guesses: tuple[CandidateSource, ...] = ()
    """What seemed faster and was not above the noise, where nothing won; to be raced again."""
    out: Collection[CandidateSource] = ()
    """What cannot be taken, whatever its times."""

    @property
    def in_doubt(self) -> bool:
        """Whether something seemed faster, and was not above the noise."""
        return bool(self.guesses)

    @property
    def original(self) -> CandidateSource:
        return self.last.entrants[0]

    @property
    def plain(self) -> CandidateSource:
        """The fastest plain JAX in the final race that is verified."""
        return self.final.plain(self.out)

    @property
    def place(self) -> int:
        """The winner's place in the final race."""
        return self.final.entrants.index(self.winner)

    def seconds(self, contender: CandidateSource) -> float:
        """The median time of a contender that ran in the final race."""
        return self.final.seconds(contender)

    def speedup(self, over: CandidateSource) -> float:
        """How many times as fast as another the winner is, by paired rounds."""
        return self.final.speedup(self.winner, over)

    def ratio(self, over: CandidateSource) -> Ratio:
        """The same with its interval."""
        ratio_of_rounds = self.final.ratio(self.winner, over)
        assert ratio_of_rounds is not None, "who won has times, and so has the original"
        return ratio_of_rounds


def is_plain(contender: CandidateSource) -> bool:
    """Whether a contender is plain JAX that makes nothing beforehand: a spelling of the original's
    operations, or a program that is verified to be equal."""
    return contender.beforehand is None and not contender.kernels


def is_spelling(contender: CandidateSource) -> bool:
    """Whether a contender is a spelling of the original's own operations, when they are called."""
    return contender.form == 0 and is_plain(contender)


def times(race: Race, place: int) -> tuple[float, float, float]:
    """The median of a contender's times, between the ends of its interval."""
    samples = race.laps[place].samples[race.deciding]
    # The interval of a median, by ranks: it assumes nothing of how times are distributed.
    cut, _ = interval(len(samples.wall))
    ordered = sorted(samples.wall)
    return ordered[cut], samples.median(), ordered[-1 - cut]


def describe_objection(floats: FloatEvidence) -> str:
    """Why a candidate is not taken that the floats do not speak for."""
    if floats.outcome == "differ":
        return f"not as accurate: {floats}"
    if floats.outcome == "unknown":
        return f"not to be judged, as no inputs tell: {floats}"
    unseen = ", ".join(map(str, floats.unseen))
    return f"not to be judged, as no inputs tell of output {unseen}: {floats}"


def describe_slower_modes(race: Race, place: int) -> str:
    """The ways of running in which a contender that would be faster is slower, as a clause."""
    # What is slower where it matters most has lost by that alone.
    seems = ratio(race, place) > 1
    slower = [
        f"{speedup.median:.2f} times {way.told}"
        for way in race.lost(place)
        if (speedup := race.speedup(place, way=way)) is not None
    ]
    return f"slower in some way: {', '.join(slower)}" if seems and slower else ""


def describe_noise(race: Race) -> str:
    return f"{race.noise() or 0.0:.1%}"
