"""The last race: who is in it, and who wins it by a rule that two runs agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..measure import Compiled, Race, Ratio
from .errors import TunerError
from .search.proposals import Measurement
from .space.traces import Trace

FINALISTS = 8

TIE = 0.03
"""What is within so much of the fastest cannot be told from it on another day."""
LOOSE = 0.1
"""What is slower by more is no tie, however wide a loud machine makes the interval."""


@dataclass(frozen=True)
class Baseline:
    """What all others are compared with: the untuned form, or the reference without a trace."""

    trace: Trace | None
    compiled: Compiled
    seconds: float


@dataclass(frozen=True)
class Contender:
    """What runs in the last race: a point, or the reference where there is no trace."""

    trace: Trace | None
    compiled: Compiled


@dataclass(frozen=True)
class Decision:
    """Who won the last race."""

    winner: int
    tied: int
    """How many others cannot be told from the winner."""
    order: tuple[int, ...]
    """Those that have times: the winner, then from the fastest on."""


def finalists(timed: Sequence[Measurement]) -> list[Measurement]:
    """Who is in the last race, of points from the fastest on.

    The two fastest, and of those that may tie with them the first in the space's order: whichever
    of a dozen that are alike was lucky, the same ones come in.
    """
    if not timed:
        return []
    bound = (1 + LOOSE) * (timed[0].seconds or 0.0)
    near = [entry for entry in timed[2:] if (entry.seconds or 0.0) <= bound]
    ordered = sorted(near, key=lambda entry: entry.trace.ranks)
    return [*timed[:2], *ordered[: FINALISTS - 2]]


def decide(race: Race, contenders: Sequence[Contender]) -> Decision:
    """The winner by a rule that two runs agree on: the first, in a fixed order, of all that tie.

    A contender ties with the fastest where it is within 3 % of it, or within 10 % and the interval
    of their paired ratio does not tell which is faster. The untuned form, which stands at 0, comes
    first in that order, then points as their space lists them, then the reference. So a tie that
    falls this way today and that way tomorrow changes nothing.
    """
    timed = [at for at in range(len(contenders)) if race.laps[at].samples]
    if not timed:
        raise TunerError(f"nothing could be timed in the last race: {race.laps[0].failure}")
    medians = {at: race.laps[at].samples[race.deciding].median() for at in timed}
    fastest = min(timed, key=lambda at: medians[at])
    ties = [at for at in timed if at == fastest or _is_tie(race.speedup(fastest, over=at))]
    winner = min(ties, key=lambda at: _standing(at, contenders[at]))
    order = sorted((at for at in timed if at != winner), key=lambda at: medians[at])
    return Decision(winner, len(ties) - 1, (winner, *order))


def _is_tie(ratio: Ratio | None) -> bool:
    if ratio is None or ratio.median < 1 + TIE:
        return True
    return ratio.median < 1 + LOOSE and ratio.low <= 1


def _standing(at: int, contender: Contender) -> tuple[int, tuple[tuple[int, ...], ...]]:
    if contender.trace is None:
        return (2, ())
    return (0 if at == 0 else 1, contender.trace.ranks)
