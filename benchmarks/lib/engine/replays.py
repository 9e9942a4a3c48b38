"""Recorded searches of a block, replayed on all numbers of workers of the study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import lib.engine.published as published
from lib.figures import figure
from msgspec import Struct
from msgspec.structs import replace

from aiosearch.lab.arms import Arm
from aiosearch.lab.ladder import RUNGS
from aiosearch.lab.simulated_arms import Replay, Replayed, SimulationSetting
from aiosearch.recording import Footer, load, record

WORKERS = (1, 2, 4, 8, 16, 32, 64, 96, 128)
LONG = 1000.0
"""Seconds that one worker and its z3 take together, to which the recording is scaled: the study's
programs took some hundreds to two thousand."""
DEPTH = "depth-first"
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Curve(Struct, frozen=True):
    """One way on all numbers of workers."""

    name: str
    rows: tuple[Replayed, ...]
    once: int
    """Checks of one worker, who asks each question once."""

    def on(self, workers: int) -> Replayed:
        return next(row for row in self.rows if row.workers == workers)

    def redundancy(self, row: Replayed) -> float:
        return row.checks / self.once

    @property
    def peak(self) -> Replayed:
        return max(self.rows, key=lambda row: row.speedup)

    @property
    def points(self) -> list[tuple[int, float]]:
        return [(row.workers, row.speedup) for row in self.rows]


class Replays:
    """Simulates ways of one recording, with the lock that the study's figures tell of."""

    def __init__(self, recording: Path) -> None:
        self._recorded = load(recording)
        lock = published.lock()
        self._setting = SimulationSetting(
            scale=LONG / (self._recorded.cpu_seconds + self._recorded.footer.check_seconds),
            locked=lock.share,
            contention=lock.contention,
        )
        self._replays: dict[SimulationSetting, Replay] = {}

    def curve(self, name: str, line: Arm, changes: Mapping[str, Any] = NOTHING) -> Curve:
        replay = self._replay(replace(self._setting, **changes))
        rows = tuple(replay.run(replace(line, workers=workers)) for workers in WORKERS)
        return Curve(name, rows, replay.alone.checks)

    def _replay(self, setting: SimulationSetting) -> Replay:
        if setting not in self._replays:
            self._replays[setting] = Replay(self._recorded, setting)
        return self._replays[setting]


def recorded(rung: str, path: Path) -> Footer:
    """Records a rung of the ladder, and says what it came to."""
    chosen = RUNGS[rung]
    footer = record(chosen.problem, path, unknown_lives=chosen.on_unknown != "drop")
    assert footer.questions == chosen.checks, (footer.questions, chosen.checks)
    figure(
        f"questions each asked once: {rung}",
        footer.questions,
        "checks",
        asking=chosen.goals,
        exploring_seconds=round(footer.seconds, 2),
        check_seconds=round(footer.check_seconds, 2),
        problem=repr(chosen.problem),
    )
    return footer
