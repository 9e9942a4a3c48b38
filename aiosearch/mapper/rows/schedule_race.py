"""Finds how many rows a block should have, on how many teams, by measuring.

Problem: a block that is too long leaves the cache, one that is too short pays a loop's overhead per
block; where the best lies, and whether a fence or a second team pays, depends on the program, the
compiler and the machine, and differs by a factor of five.

Method: blocks a factor of 4 apart are timed once each, for every number of teams, fenced or not;
what takes twice the best is dropped. Around the best the size is doubled and halved while that
helps. The best few then race against the original in turns, so that a load that comes and goes hits
all alike. Each candidate is compiled once. Cost: some twenty runs, and at most `seconds`.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from ...capture.jax_types import Leaf
from .blocked import RowBlocks, RowRunner, RowSchedule
from .evidence import Flatly

LEAST_BLOCK = 64
VECTOR = 16
"""Blocks have a multiple of so many rows, which threads and vectors divide; see `even_block`."""
STEP = 4
FINALISTS = 3
ROUNDS = 7
GRACE = 10.0
"""Seconds behind the deadline after which three rounds have to do."""
LEAST_GAIN = 1.03
"""How many times as fast as the original a schedule must be, in the median of paired rounds."""


class Measured(Struct, frozen=True):
    """A schedule and how long it took, in seconds."""

    schedule: RowSchedule
    seconds: float


class Choice(Struct, frozen=True, kw_only=True):
    """What won, and everything that was tried."""

    winner: RowSchedule | None
    original_seconds: float
    """The least that the original took."""
    seconds: float
    """The least that the winner took."""
    gain: float
    """The median, over rounds, of how many times as fast as the original the winner was."""
    tried: tuple[Measured, ...]


class Stopwatch:
    """Times candidates; those whose compilation or run fails are infinitely slow."""

    def __init__(
        self,
        blocks: RowBlocks,
        inputs: Sequence[Leaf],
        fits: Callable[[RowRunner], bool],
        deadline: float,
        stop: threading.Event,
    ) -> None:
        self.blocks = blocks
        self.inputs = inputs
        self.fits = fits
        self.deadline = deadline
        self.stop = stop
        self.runners: dict[RowSchedule, RowRunner] = {}
        self.seconds: dict[RowSchedule, float] = {}

    def time(self, schedule: RowSchedule) -> float:
        if schedule not in self.seconds:
            if time.monotonic() > self.deadline or self.stop.is_set():
                return float("inf")
            runner = RowRunner(self.blocks, schedule)
            if self.fits(runner):
                self.runners[schedule] = runner
                timed(runner, self.inputs)  # compiles
                # Noise only adds time, so the lesser of two runs is the better estimate.
                self.seconds[schedule] = min(timed(runner, self.inputs) for _ in range(2))
            else:
                self.seconds[schedule] = float("inf")
        return self.seconds[schedule]


def even_block(rows: int) -> int:
    """The largest block of at most so many rows that `VECTOR` divides, or the least there is.

    jax 0.10 cuts a kernel into as many parts as threads pay for it. Where these do not divide it,
    each turn of its loop asks whether it is past the end, which LLVM leaves without vectors: a
    fenced block of 15,625 numbers took six times as long for each as one of 125,000.
    """
    return max(LEAST_BLOCK, rows // LEAST_BLOCK * LEAST_BLOCK)


def wait_for(results: Sequence[Leaf]) -> None:
    """Waits until arrays are computed."""
    for array in results:
        array.block_until_ready()


def timed(run: Flatly, inputs: Sequence[Leaf]) -> float:
    begun = time.perf_counter()
    wait_for(run(inputs))
    return time.perf_counter() - begun


def choose_schedule(
    original: Flatly,
    blocks: RowBlocks,
    inputs: Sequence[Leaf],
    *,
    teams: int,
    seconds: float,
    fits: Callable[[RowRunner], bool] = lambda runner: True,
    least_gain: float = LEAST_GAIN,
    stop: threading.Event | None = None,
) -> Choice:
    """Measures schedules on up to so many teams, and races the best against the original.

    Schedules that do not fit are left out. A winner is `least_gain` times as fast as the original;
    0 takes the fastest schedule in any case. Once `stop` is set, no other is tried.
    """
    deadline = time.monotonic() + seconds
    watch = Stopwatch(blocks, inputs, fits, deadline, stop or threading.Event())
    rows = blocks.rows
    counts = sorted(
        {1, teams, *(2**n for n in range(1, teams.bit_length()))} & {*range(1, teams + 1)}
    )
    best: RowSchedule | None = None

    def consider(schedule: RowSchedule) -> None:
        nonlocal best
        lap = watch.time(schedule)
        if lap != float("inf") and (best is None or lap < watch.time(best)):
            best = schedule

    for count in reversed(counts):
        share = -(-rows // count)
        if count > 1:
            consider(RowSchedule(count, share))
        # Six factors of 4 span from what fits a first-level cache to a team's whole share.
        size = min(share, even_block(rows // STEP**6))
        while size < share:
            consider(RowSchedule(count, size, fence=False))
            consider(RowSchedule(count, size, fence=True))
            size *= STEP
    if best is not None:
        _refine(best, rows, consider, lambda: best)
    # Nothing but the order of compilation favours a finalist: all race, and so does the original.
    finalists = sorted(watch.runners, key=lambda schedule: watch.seconds[schedule])[:FINALISTS]
    runners = {schedule: watch.runners[schedule] for schedule in finalists}
    return _race(original, runners, watch, least_gain)


class PairedRounds(Struct, frozen=True):
    """The least seconds of the original and of a candidate, and the median of their ratios."""

    usual: float
    seconds: float
    gain: float


def race_pair(
    original: Flatly,
    candidate: Flatly,
    inputs: Sequence[Leaf],
    deadline: float,
    stop: threading.Event,
) -> PairedRounds:
    """Runs the two in turns, so that each ratio compares times of the same moment."""
    timed(original, inputs)  # compiles
    pairs = []
    for number in range(ROUNDS):
        pairs.append((timed(original, inputs), timed(candidate, inputs)))
        if (number >= 2 and time.monotonic() > deadline + GRACE) or stop.is_set():
            break
    usual, laps = zip(*pairs, strict=True)
    return PairedRounds(min(usual), min(laps), statistics.median(a / b for a, b in pairs))


def _refine(
    start: RowSchedule,
    rows: int,
    consider: Callable[[RowSchedule], None],
    leading: Callable[[], RowSchedule | None],
) -> None:
    """Doubles and halves the leader's block while that leads."""
    current: RowSchedule | None = None
    leader: RowSchedule | None = start
    while leader is not None and leader != current:
        current = leader
        for block in (current.block * 2, current.block // 2):
            is_even = block % VECTOR == 0
            if is_even and VECTOR <= block <= -(-rows // current.teams):
                consider(RowSchedule(current.teams, block, current.fence))
        leader = leading()


def _race(
    original: Flatly,
    runners: dict[RowSchedule, RowRunner],
    watch: Stopwatch,
    least_gain: float,
) -> Choice:
    timed(original, watch.inputs)  # compiles
    # In turns within a round, so that each ratio compares times of the same moment.
    usual: list[float] = []
    laps: dict[RowSchedule, list[float]] = {schedule: [] for schedule in runners}
    for number in range(ROUNDS):
        usual.append(timed(original, watch.inputs))
        for schedule, runner in runners.items():
            laps[schedule].append(timed(runner, watch.inputs))
        late = number >= 2 and time.monotonic() > watch.deadline + GRACE
        if late or watch.stop.is_set():
            break
    gains = {
        schedule: statistics.median(a / b for a, b in zip(usual, lap, strict=True))
        for schedule, lap in laps.items()
    }
    winner = max(gains, key=lambda schedule: gains[schedule], default=None)
    tried = tuple(Measured(schedule, lap) for schedule, lap in watch.seconds.items())
    if winner is None or gains[winner] < least_gain:
        return Choice(
            winner=None, original_seconds=min(usual), seconds=min(usual), gain=1.0, tried=tried
        )
    return Choice(
        winner=winner,
        original_seconds=min(usual),
        seconds=min(laps[winner]),
        gain=gains[winner],
        tried=tried,
    )
