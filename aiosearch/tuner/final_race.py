"""The last race: who is in it, and who wins it by a rule that two runs agree on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..measure import Compiled, Race, Ratio
from ..measure.race import LEAST_ROUNDS
from .errors import TunerError
from .search.proposals import Measurement
from .space.traces import Trace

FINALISTS = 12
FASTEST = 4
"""As many of the fastest are in the last race, however far they are apart."""
NEAR = 0.15
"""Of others those that were slower by no more."""
FAR = 2.0
"""What was good elsewhere is left out where it took so many times as long as the fastest."""

TIE = (0.02, 0.06)
"""Between these lies what tells a tie from no tie, where the times of the race leave the widest
gap."""
LOOSE = 0.1
"""What is slower by more is no tie, however wide a loud machine makes the interval."""

LAST_SHARE = 0.2
"""Of the time that is left when a search begins, for its last races."""
LONGEST_SHARE = 0.5
"""The same where runs are so long that the fewest of a race take more."""
FEWEST = 4
"""Runs in a round of the smallest last race: the untuned form twice, a point, and the reference."""
FEW_ROUNDS = 3
"""Of what runs so long that there is no time for those that a ratio needs."""
UNSETTLED = 0.1
"""Seconds from which on a run is timed without others before it (`measure.worker.timing`)."""


def sample_seconds(run: float) -> float:
    """What a sample of a `run` takes, with the runs that go before it."""
    return run if run >= UNSETTLED else run + min(12 * run, run + 0.02)


def reserved(seconds: float, run: float) -> float:
    """Seconds that are left for the last races of what takes so many in a `run`, of all that are
    left when the search begins.
    """
    races = 2 * LEAST_ROUNDS * FEWEST * sample_seconds(run)
    return min(max(LAST_SHARE * seconds, races), LONGEST_SHARE * seconds)


def affordable(entries: Sequence[Measurement], run: float, seconds: float) -> list[Measurement]:
    """As many finalists, from the first on, as can run the rounds that a ratio needs in half of the
    seconds, beside the untuned form and the reference, which take `run`; the first in any case.
    """
    together = (FEWEST - 1) * sample_seconds(run)
    for count, entry in enumerate(entries):
        together += sample_seconds(entry.seconds or 0.0)
        if count and 2 * LEAST_ROUNDS * together > seconds:
            return [*entries[:count]]
    return [*entries]


def least_rounds(contenders: Sequence[Contender], seconds: float) -> int:
    """How many rounds are run whatever they take: those that a ratio needs or, of what runs too
    long for that, a few, and one where there is nothing to compare.
    """
    runners = [contenders[0], *contenders]
    together = sum(sample_seconds(contender.seconds) for contender in runners)
    if LEAST_ROUNDS * together <= max(1.0, seconds):
        return LEAST_ROUNDS
    return FEW_ROUNDS if len(contenders) > 1 else 1


@dataclass(frozen=True)
class Contender:
    """What runs in the last race: a point, or the reference where there is no trace."""

    trace: Trace | None
    compiled: Compiled
    seconds: float = 0.0
    """Of a run, as far as the search has seen."""


@dataclass(frozen=True)
class Decision:
    """Who won the last race."""

    winner: int
    tied: int
    """How many others cannot be told from the winner."""
    order: tuple[int, ...]
    """Those that have times: the winner, then from the fastest on."""


def finalists(timed: Sequence[Measurement], favourites: Collection[str] = ()) -> list[Measurement]:
    """Who is in the last race, of points from the fastest on; `favourites` are keys of traces.

    The fastest few, since with three rounds on a loud machine the best of many is hardly ever the
    best; what was good elsewhere, unless it is far behind; and of those that may tie with the
    fastest the first in the space's order: whichever of a dozen that are alike was lucky, the same
    ones come in.
    """
    if not timed:
        return []
    least = timed[0].seconds or 0.0
    known = [
        entry
        for entry in timed[FASTEST:]
        if entry.trace.key in favourites and (entry.seconds or 0.0) <= FAR * least
    ]
    chosen = [*timed[:FASTEST], *known]
    keys = {entry.trace.key for entry in chosen}
    near = [
        entry
        for entry in timed
        if (entry.seconds or 0.0) <= (1 + NEAR) * least and entry.trace.key not in keys
    ]
    ordered = sorted(near, key=lambda entry: entry.trace.ranks)
    return [*chosen, *ordered][: max(FINALISTS, len(chosen))]


def close_contenders(race: Race) -> list[int]:
    """Who is to be told apart by more rounds: the baseline, all that may tie with the fastest, and
    the fastest itself where it is not yet told from the baseline, however far ahead it seems.

    Only the baseline where there is nothing to tell apart.
    """
    medians = _medians(race)
    if not medians:
        return [0]
    fastest = min(medians, key=lambda at: medians[at])
    ratio = race.speedup(fastest)
    is_told = ratio is not None and ratio.low > 1
    bound = (1 + LOOSE) * medians[fastest]
    close = [at for at, seconds in medians.items() if seconds <= bound]
    return sorted({0, *close}) if len(close) > 1 or not is_told else [0]


def decide(race: Race, contenders: Sequence[Contender]) -> Decision:
    """The winner by a rule that two runs agree on: the first, in a fixed order, of all that tie.

    Problem: whatever the bound is that tells a tie from no tie, some point lies on it, and is on
    this side today and on that tomorrow. So the bound is not fixed. Of the ratios to the fastest,
    such as 1, 1.01, 1.028, 1.033 and 1.09, the widest gap between 1.02 and 1.06 is looked for,
    here above 1.033: all below it tie. Noise moves a point less than the width of that gap.

    A contender ties as well where it is within 10 % and the interval of their paired ratio does not
    tell which is faster; and the untuned form, which stands at 0, however far it is behind: on a
    loud machine it stays until something is faster beyond noise, or by 10 % in every round where
    there were fewer than an interval needs. It comes first in the fixed order,
    then points as their space lists them, then the reference.
    """
    medians = _medians(race)
    if not medians:
        raise TunerError(f"nothing could be timed in the last race: {race.laps[0].failure}")
    fastest = min(medians, key=lambda at: medians[at])
    ratios = {at: race.speedup(fastest, over=at) for at in medians if at != fastest}
    bound = tie_bound([ratio.median for ratio in ratios.values() if ratio is not None])
    beyond = 1.0 if race.rounds >= LEAST_ROUNDS else 1 + LOOSE
    ties = [
        at
        for at, ratio in ratios.items()
        if _is_tie(ratio, bound) or (at == 0 and ratio is not None and ratio.low <= beyond)
    ]
    winner = min([fastest, *ties], key=lambda at: _standing(at, contenders[at]))
    order = sorted((at for at in medians if at != winner), key=lambda at: medians[at])
    return Decision(winner, len(ties), (winner, *order))


def tie_bound(ratios: Sequence[float]) -> float:
    """The middle of the widest gap that ratios to the fastest leave between the limits of a tie.

    >>> round(tie_bound([1.01, 1.028, 1.033, 1.09]), 4)
    1.0465
    """
    low, high = (1 + limit for limit in TIE)
    edges = sorted({low, high, *(ratio for ratio in ratios if low < ratio < high)})
    below, above = max(pairwise(edges), key=lambda gap: gap[1] - gap[0])
    return (below + above) / 2


def _medians(race: Race) -> dict[int, float]:
    """Seconds of the contenders that have any."""
    return {
        at: lap.samples[race.deciding].median() for at, lap in enumerate(race.laps) if lap.samples
    }


def _is_tie(ratio: Ratio | None, bound: float) -> bool:
    if ratio is None or ratio.median < bound:
        return True
    return ratio.median < 1 + LOOSE and ratio.low <= 1


def _standing(at: int, contender: Contender) -> tuple[int, tuple[tuple[int, ...], ...]]:
    if contender.trace is None:
        return (2, ())
    return (0 if at == 0 else 1, contender.trace.ranks)
