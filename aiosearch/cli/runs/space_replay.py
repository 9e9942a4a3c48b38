"""`aiosearch tune --replay`: search algorithms side by side on a space that was recorded."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from ...tuner.search.recordings import RecordedSpace, SpaceReplay, replay
from ..output.streams import Exit, give, give_json

if TYPE_CHECKING:
    from ..commands.tune import TuneArguments

SEEDS = 10


def run(arguments: TuneArguments) -> int:
    """Replays each algorithm with ten seeds, prints the shares, and gives the exit code."""
    recorded = RecordedSpace.load(Path(arguments.replay or ""))
    names = arguments.algorithm or ["evolution", "best-first", "random", "exhaustive"]
    lines = []
    for name in names:
        runs = [
            replay(recorded, name, model=arguments.model, seed=arguments.seed + at)
            for at in range(SEEDS)
        ]
        if arguments.json:
            give_json(_facts(recorded, name, runs))
        lines.append(_line(name, runs))
    if not arguments.json:
        failed = sum(point.seconds is None for point in recorded.points)
        give(
            f"{recorded.kernel} on {', '.join(recorded.arguments)}: {len(recorded.points)} points,"
            f" {failed} of which fail; measurements until within 5 % of the best, {SEEDS} seeds"
        )
        for line in lines:
            give(line)
    return Exit.FINE


def _line(name: str, runs: list[SpaceReplay]) -> str:
    counts = sorted(each.measurements for each in runs)
    share = median(each.share for each in runs)
    return f"  {name:<12} {median(counts):6.1f}  ({counts[0]} to {counts[-1]})  {share:6.1%}"


def _facts(recorded: RecordedSpace, name: str, runs: list[SpaceReplay]) -> dict[str, object]:
    return {
        "kernel": recorded.kernel,
        "points": len(recorded.points),
        "algorithm": name,
        "measurements": [each.measurements for each in runs],
        "share": median(each.share for each in runs),
    }
