"""`candidate_rows`: what is shown of each candidate, on the screen, in a chart and on a page.

The winner was raced once more, alone against the original: that race gives its figures, and the
original's. All others ran in an earlier race, on another clock: their speed-ups are of that race,
and their times are those speed-ups on the clock of the winner. So a table has one time for the
original, and the winner's row says what the headline does.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from ..candidates.candidate_names import AS_WRITTEN
from .evidence import Tried
from .report import Found


class CandidateState(StrEnum):
    """What became of a candidate."""

    WINNER = "winner"
    ORIGINAL = "as written"
    SLOWER = "not the fastest"
    UNCERTAIN = "uncertain: the noise hides whether it is faster"
    """It seemed faster, and the machine was too noisy to say so."""
    LEVEL = "no faster beyond the noise"
    """It seemed faster than the original, which stays, by less than the original differs from
    itself."""
    EARLY = "out in the first race"
    """Too slow for the last race, so that it has no time on the same clock."""
    NOT_TAKEN = "not taken"
    """It was faster than the original, or may be, and something spoke against it."""
    FAILED = "not timed"


class CandidateRow(Struct, frozen=True):
    """One candidate as it is shown."""

    name: str
    state: CandidateState
    seconds: float | None
    """Seconds of a call on the clock of the winner's race; `None` where it was not timed."""
    low: float | None
    high: float | None
    speedup: float | None
    verdict: str
    """How it is verified: the first line of its verdict."""
    reason: str
    """Why it was not taken, in plain words; empty where nothing speaks against it."""
    note: str
    """Why it was not taken, as it was said."""
    schedule: str

    @property
    def noise(self) -> float | None:
        """How far the interval of its time reaches from its median, as a part of it."""
        if not self.seconds or self.low is None or self.high is None:
            return None
        return max(self.high - self.seconds, self.seconds - self.low) / self.seconds


_IN_THE_LAST_RACE = (
    CandidateState.SLOWER,
    CandidateState.UNCERTAIN,
    CandidateState.LEVEL,
    CandidateState.NOT_TAKEN,
)
"""States of candidates, other than the winner, whose times are on one clock."""


def candidate_rows(outcome: Found) -> list[CandidateRow]:
    """The winner first, then the others by speed, what was not timed, and the original last."""
    tried = outcome.tried or _remembered(outcome)
    rows = [_row(outcome, trial, number == 0) for number, trial in enumerate(tried)]
    order = list(CandidateState)
    order = [order[0], *order[2:], order[1]]

    def rank(row: CandidateRow) -> tuple[int, float]:
        timed = row.state in _IN_THE_LAST_RACE
        place = order.index(CandidateState.SLOWER) if timed else order.index(row.state)
        return place, -(row.speedup or 0.0)

    return sorted(rows, key=rank)


def _remembered(outcome: Found) -> tuple[Tried, ...]:
    """The original and the answer, where an earlier version kept nothing else."""
    times, answer = outcome.answer.timings, outcome.answer
    original = Tried(AS_WRITTEN, times.original, 1.0, won=not answer.faster)
    if not answer.faster:
        return (original,)
    return original, Tried("the answer", times.answer, answer.speedup, won=True)


def _row(outcome: Found, trial: Tried, is_original: bool) -> CandidateRow:
    answer = outcome.answer
    speedup = trial.speedup
    if is_original:
        state, speedup, seconds = CandidateState.ORIGINAL, 1.0, answer.timings.original
    elif trial.won:
        state, speedup = CandidateState.WINNER, answer.speedup
        seconds = answer.timings.answer
    elif trial.seconds is None or not speedup:
        is_early = _FIRST_RACE.fullmatch(trial.note) is not None
        state, seconds = CandidateState.EARLY if is_early else CandidateState.FAILED, None
    else:
        if trial.note:
            state = CandidateState.NOT_TAKEN
        elif outcome.in_doubt and speedup > 1:
            state = CandidateState.UNCERTAIN
        elif not answer.faster and speedup > 1:
            state = CandidateState.LEVEL
        else:
            state = CandidateState.SLOWER
        seconds = answer.timings.original / speedup
    # The interval is as wide, as a part of the time, as where it was measured.
    scale = seconds / trial.seconds if seconds and trial.seconds else None
    low, high = (
        None if bound is None or scale is None else bound * scale
        for bound in (trial.low, trial.high)
    )
    return CandidateRow(
        trial.how, state, seconds, low, high, speedup if seconds else None, trial.verdict,
        plain_reason(trial.note), trial.note, trial.schedule,
    )  # fmt: skip


_PLAIN = (
    ("not to be judged", "rounding decides", "not judged: rounding decides on these inputs"),
    ("not to be judged", "", "not judged: no inputs tell it from the original"),
    ("not judged", "", "not judged: the check failed"),
    ("not as accurate", "", "less accurate than the original"),
    ("not confirmed", "", ""),
    ("slower in some way", "", ""),
)
"""How a note begins, what else it says, and its plain words; empty where the note's first clause is
plain already."""


def plain_reason(note: str) -> str:
    """Why a candidate was not taken, as a reader without the words of verification has it.

    >>> plain_reason("not as accurate: differ on 3 of 10 distributions; normal failed: ...")
    'less accurate than the original'
    """
    for beginning, part, words in _PLAIN:
        if note.startswith(beginning) and part in note:
            return words or note.partition("; ")[0]
    if match := _FIRST_RACE.fullmatch(note):
        return f"{match[1]}x in the first race, where others were faster"
    return note.partition("; ")[0]


_FIRST_RACE = re.compile(r"(\d+\.\d+) times in the first race")
"""What is noted of a candidate that was too slow for the last race."""
_WORTH_TELLING = 1.05
"""How many times as fast as the original a candidate was in the first race that is told on a
screen."""


def is_worth_telling(row: CandidateRow) -> bool:
    """Whether a reader would ask why it was not taken: not of what was slower anyway."""
    match = _FIRST_RACE.fullmatch(row.note)
    if match is not None:
        return float(match[1]) >= _WORTH_TELLING
    return bool(row.note) and (row.speedup is None or row.speedup > 1)
