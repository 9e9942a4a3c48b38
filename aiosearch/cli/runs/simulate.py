"""`aiosearch simulate`: what a recorded search would gain from more workers.

What simulated runs came to: as a table, as CSV and as curves.
"""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from ...display.tables import table
from ...documents import Document
from ...errors import StrategyError
from ...lab.arms import Arm
from ...lab.simulated_arms import Replay, Replayed, SimulationSetting
from ...lab.simulated_chart import plot
from ...orders import find_order
from ...recording import Recorded, load
from ...strategies import find_strategy, list_strategies
from ..inputs.switches import Switches, switches_of
from ..output.files import require_drawing, require_place, write
from ..output.screen import LiveScreen, NoScreen, PlainScreen, Screen
from ..output.streams import Exit, UsageError, complain, give, give_json
from ..output.units import count, duration, of

if TYPE_CHECKING:
    from ..commands.simulate import SimulateArguments


MOST_WORKERS = 1 << 16
CENTURY = 100 * 365.25 * 24 * 3600.0
"""Nothing that takes longer is simulated."""
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "": 1.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?(?:e-?\d+)?)\s*(s|ms|us|)")


def workers_of(text: str) -> list[int]:
    """Reads numbers with commas, and `1..4096` for every power of two from 1."""
    counts: list[int] = []
    for part in text.split(","):
        low, dots, high = part.strip().partition("..")
        if not (low.isdigit() and (high.isdigit() or not dots)):
            raise UsageError(f"--workers takes numbers as 1,2,4 or 1..4096, not {text!r}")
        counts += _doubling(int(low), int(high)) if dots else [int(low)]
    if not counts or min(counts) < 1 or max(counts) > MOST_WORKERS:
        raise UsageError(f"--workers takes numbers from 1 to {MOST_WORKERS}, not {text!r}")
    return sorted(set(counts))


def _doubling(low: int, high: int) -> list[int]:
    powers = []
    while 0 < low < high:
        powers.append(low)
        low *= 2
    return [*powers, high]


def seconds_of(text: str, flag: str) -> float:
    """Reads 200us, 1.5ms or 0.1s."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{flag} takes a time as 200us, 1.5ms or 0.1s, not {text!r}")
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > CENTURY:
        raise UsageError(f"{flag} is a century at most, not {text!r}")
    return seconds


RIGHT = frozenset(range(1, 14))
"""The columns of figures."""


def lines(rows: Sequence[Replayed]) -> Iterator[tuple[str, ...]]:
    """A table's cells, its head first."""
    yield (
        "way", "workers", "hosts", "time", "speed-up", "efficiency", "balance", "idle",
        "contention", "z3", "redundant", "messages", "host", "thinking",
    )  # fmt: skip
    for row in rows:
        yield (
            row.name,
            f"{row.workers}",
            f"{row.hosts}",
            duration(row.seconds),
            f"{row.speedup:.2f}",
            f"{row.efficiency:.0%}",
            f"{row.balance:.0%}",
            f"{row.idle:.0%}",
            f"{row.contention:.0%}",
            count(row.checks),
            count(row.redundant),
            count(row.messages),
            f"{row.host:.0%}",
            f"{row.thinking * 1e6:.0f}us",
        )


def curves(rows: Sequence[Replayed]) -> dict[str, list[tuple[int, float]]]:
    """The speed-ups of each way by workers."""
    by_strategy: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        by_strategy.setdefault(row.name, []).append((row.workers, row.speedup))
    return by_strategy


def as_csv(rows: Sequence[Replayed]) -> str:
    """A line for each run, below a line of names."""
    text = io.StringIO()
    writer = csv.DictWriter(text, Replayed.__struct_fields__, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(msgspec.structs.asdict, rows))
    return text.getvalue()


def run(arguments: SimulateArguments) -> int:
    """Simulates, and gives the exit code."""
    numbers = workers_of(arguments.workers)
    names, switches = _strategies(arguments.strategy), switches_of(arguments)
    setting, order = _setting(arguments), arguments.order or "depth-first"
    require_place(arguments.csv)
    require_drawing(arguments.plot)
    path = Path(arguments.recording)
    screen = _screen(arguments.json)
    try:
        screen.status(f"reading {path}")
        recorded = load(path)
        find_order(order, recorded)
        _require_end(recorded, setting, max(numbers))
        screen.line(_about(path, recorded, setting, switches))
        if setting.hosts > max(numbers):
            screen.line(f"--hosts {setting.hosts}: {_crowded(max(numbers))}")
        ways = _lines(names, order, switches)
        rows, failures = _replayed(recorded, setting, ways, numbers, arguments.repeat, screen)
    finally:
        screen.close()
    for failure in failures:
        complain(failure)
    _give(arguments, path, recorded, setting, order, rows)
    return Exit.FAILED if failures else Exit.FINE


def _replayed(
    recorded: Recorded,
    setting: SimulationSetting,
    ways: Sequence[Arm],
    numbers: Sequence[int],
    repeat: int,
    screen: Screen,
) -> tuple[list[Replayed], list[str]]:
    """Replays each way until it fails; gives what came of it, and what failed."""
    rows: list[Replayed] = []
    failures: list[str] = []
    screen.status("replaying with one worker")
    replay = Replay(recorded, setting, ways[0].order)
    for place, way in enumerate(ways):
        try:
            for done, workers in enumerate(numbers):
                number = place * len(numbers) + done
                progress = f"{number} of {len(ways) * len(numbers)} runs"
                screen.status(f"{progress}  now {way.name} with {of(workers, 'worker')}")
                rows.append(replay.run(replace(way, workers=workers), repeat))
        except StrategyError as error:
            failures.append(f"{way.name} with {of(workers, 'worker')}: {error}")
    return rows, failures


def _screen(json: bool) -> Screen:
    if sys.stderr.isatty():
        return LiveScreen()
    return NoScreen() if json else PlainScreen(lambda: None)


def _require_end(recorded: Recorded, setting: SimulationSetting, workers: int) -> None:
    """Refuses what nobody would see the end of."""
    checks = recorded.footer.check_seconds * (1 + setting.contention * workers)
    if not (recorded.cpu_seconds + checks) * setting.scale < CENTURY:
        raise UsageError("a search of more than a century is not simulated; take a lower --scale")


def _crowded(workers: int) -> str:
    return f"{of(workers, 'worker')} cannot be on more than {of(workers, 'machine')}"


def _lines(names: Sequence[str], order: str, switches: Switches) -> list[Arm]:
    """The ways, without their workers."""
    return [
        Arm(name, order, 0, verdicts, solver, split)
        for name in names
        for verdicts in switches.verdicts
        for solver in switches.solver
        for split in switches.split
    ]


def _strategies(texts: Sequence[str]) -> list[str]:
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    if "all" in names:
        return [info.name for info in list_strategies() if not info.error]
    for name in names:
        find_strategy(name)
    return list(dict.fromkeys(names)) or ["queue"]


def _setting(arguments: SimulateArguments) -> SimulationSetting:
    for flag in ("hosts", "repeat", "scale"):
        if not 0 < getattr(arguments, flag) < math.inf:
            raise UsageError(f"--{flag} is a number above zero, not {getattr(arguments, flag)}")
    for flag in ("checkers", "contention"):
        if not 0 <= getattr(arguments, flag) < math.inf:
            raise UsageError(f"--{flag} is a number from zero, not {getattr(arguments, flag)}")
    if not 0 <= arguments.locked <= 1:
        raise UsageError(f"--locked is from 0 to 1, not {arguments.locked}")
    return SimulationSetting(
        hosts=arguments.hosts,
        latency=seconds_of(arguments.latency, "--latency"),
        local_latency=seconds_of(arguments.local_latency, "--local-latency"),
        host_cost=seconds_of(arguments.host_cost, "--host-cost"),
        checkers=arguments.checkers,
        locked=arguments.locked,
        contention=arguments.contention,
        scale=arguments.scale,
    )


def _about(path: Path, recorded: Recorded, setting: SimulationSetting, switches: Switches) -> str:
    footer = recorded.footer
    whole = "" if footer.complete else ", stopped before its end"
    text = f"{path}: {recorded.header.problem}, {count(footer.nodes)} nodes{whole}, "
    text += f"{duration(recorded.cpu_seconds * setting.scale)} of exploring, "
    text += f"the longest node {duration(recorded.longest * setting.scale)}"
    if footer.questions:
        seconds = duration(footer.check_seconds * setting.scale)
        text += f", {of(footer.questions, 'check')} of {seconds}"
        if "locked" in switches.solver:
            text += f", {setting.locked:.1%} of each one by one when locked"
            text += f" and {setting.contention:.1%} more for each that waits"
    machines = f"; a message costs the host {setting.host_cost * 1e6:g}us"
    if setting.hosts > 1:
        machines += f", {setting.latency * 1e6:g}us to each of {setting.hosts - 1} machines more"
    return text + machines


def _give(
    arguments: SimulateArguments,
    path: Path,
    recorded: Recorded,
    setting: SimulationSetting,
    order: str,
    rows: Sequence[Replayed],
) -> None:
    write(arguments.csv, lambda: as_csv(rows))
    write(arguments.plot, lambda: plot(curves(rows), f"{path.name}, simulated"))
    if arguments.json:
        document: Document = {"order": order, **msgspec.structs.asdict(setting)}
        give_json(
            {
                "recording": {"header": recorded.header, "footer": recorded.footer},
                "settings": document,
                "runs": rows,
            }
        )
    elif rows:
        give(table(lines(rows), RIGHT))
