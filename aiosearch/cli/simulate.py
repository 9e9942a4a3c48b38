"""`aiosearch simulate`: what a recorded search would gain from more workers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from msgspec import Struct

from ..errors import StrategyError
from ..orders import Order, find_order
from ..recording import Recorded, load
from ..recording.replay import RecordedWithQuestions
from ..strategies import find_strategy, list_strategies
from ..testing import Simulation, simulate
from ..testing.stopwatch import Stopwatch
from .curves import plot
from .exits import Exit
from .figures import count, duration
from .output import complain, give, give_json, table, tell
from .simulated import RIGHT, Row, as_csv, curves, lines
from .simulating import seconds_of, workers_of
from .usage import UsageError


class Settings(Struct, frozen=True):
    """What all runs have in common."""

    order: Order
    hosts: int
    latency: float
    local_latency: float
    host_cost: float
    checkers: int
    shared_verdicts: bool
    scale: float
    repeat: int


def run(arguments: argparse.Namespace) -> int:
    """Simulates, and gives the exit code."""
    numbers = workers_of(arguments.workers)
    names = _strategies(arguments.strategy)
    path = Path(arguments.recording)
    recorded = load(path)
    settings = _settings(arguments, recorded)
    simulated = _Simulated(recorded, settings)
    if not arguments.json:
        tell(_about(path, recorded, settings))
    failed = False
    for name in names:
        try:
            for workers in numbers:
                simulated.add(name, workers)
        except StrategyError as error:
            complain(f"{name} with {workers} workers: {error}")
            failed = True
    _give(arguments, path, recorded, settings, simulated.rows)
    return Exit.FAILED if failed else Exit.FINE


class _Simulated:
    """The runs so far, and the time of one worker, which they are compared with."""

    def __init__(self, recorded: Recorded, settings: Settings) -> None:
        self.rows: list[Row] = []
        self._recorded = recorded
        self._settings = settings
        self._alone, _ = self._run("queue", 1, 0)

    def add(self, strategy: str, workers: int) -> None:
        rows = [
            self._row(strategy, workers, *self._run(strategy, workers, seed))
            for seed in range(self._settings.repeat)
        ]
        self.rows.append(_median(rows))

    def _run(self, strategy: str, workers: int, seed: int) -> tuple[Simulation, Stopwatch]:
        recorded, settings = self._recorded, self._settings
        watch = Stopwatch(find_strategy(strategy))
        verdict = None
        if isinstance(recorded, RecordedWithQuestions):
            verdict = recorded.verdict_after(settings.scale)
        found = simulate(
            watch,
            recorded,
            workers,
            order=settings.order,
            hosts=min(settings.hosts, workers),
            latency=settings.latency,
            local_latency=settings.local_latency,
            node_seconds=_scaled(recorded.seconds, settings.scale),
            host_seconds=settings.host_cost,
            checkers=settings.checkers,
            verdict=verdict,
            shared_verdicts=settings.shared_verdicts,
            seed=seed,
        )
        return found, watch

    def _row(self, strategy: str, workers: int, found: Simulation, watch: Stopwatch) -> Row:
        speedup = self._alone.seconds / found.seconds
        return Row(
            strategy=strategy,
            workers=workers,
            hosts=min(self._settings.hosts, workers),
            seconds=found.seconds,
            speedup=speedup,
            efficiency=speedup / workers,
            balance=found.balance,
            idle=sum(worker.idle for worker in found.workers) / workers / found.seconds,
            messages=found.messages,
            tasks=found.tasks,
            checks=found.checks,
            host=found.host / found.seconds,
            thinking=watch.seconds,
        )


def _scaled(seconds: Callable[[int], float], scale: float) -> Callable[[int], float]:
    return seconds if scale == 1.0 else lambda node: seconds(node) * scale


def _median(rows: Sequence[Row]) -> Row:
    """Takes each figure's median; names and numbers of workers are the same in all."""
    if len(rows) == 1:
        return rows[0]
    figures = Row.__struct_fields__[3:]
    found = {name: median(getattr(row, name) for row in rows) for name in figures}
    return msgspec.convert(msgspec.to_builtins(rows[0]) | found, Row, strict=False)


def _strategies(given: Sequence[str]) -> list[str]:
    names = [name.strip() for text in given for name in text.split(",") if name.strip()]
    if "all" in names:
        return [info.name for info in list_strategies() if not info.error]
    for name in names:
        find_strategy(name)
    return list(dict.fromkeys(names)) or ["queue"]


def _settings(arguments: argparse.Namespace, recorded: Recorded) -> Settings:
    for flag in ("hosts", "checkers", "repeat", "scale"):
        if not getattr(arguments, flag) > 0:
            raise UsageError(f"--{flag} is above zero, not {getattr(arguments, flag)}")
    order = find_order(arguments.order or "depth-first", recorded)
    return Settings(
        order=order,
        hosts=arguments.hosts,
        latency=seconds_of(arguments.latency, "--latency"),
        local_latency=seconds_of(arguments.local_latency, "--local-latency"),
        host_cost=seconds_of(arguments.host_cost, "--host-cost"),
        checkers=arguments.checkers,
        shared_verdicts=arguments.verdicts == "shared",
        scale=arguments.scale,
        repeat=arguments.repeat,
    )


def _about(path: Path, recorded: Recorded, settings: Settings) -> str:
    footer = recorded.footer
    whole = "" if footer.complete else ", stopped before its end"
    told = f"{path}: {recorded.header.problem}, {count(footer.nodes)} nodes{whole}, "
    told += f"{duration(recorded.cpu_seconds * settings.scale)} of exploring, "
    told += f"the longest node {duration(recorded.longest * settings.scale)}"
    if footer.questions:
        seconds = duration(footer.check_seconds * settings.scale)
        told += f", {count(footer.questions)} checks of {seconds} for {settings.checkers} z3"
    machines = f"; a message costs the host {settings.host_cost * 1e6:g}us"
    if settings.hosts > 1:
        machines += f", {settings.latency * 1e6:g}us to each of {settings.hosts - 1} machines more"
    return told + machines


def _give(
    arguments: argparse.Namespace,
    path: Path,
    recorded: Recorded,
    settings: Settings,
    rows: Sequence[Row],
) -> None:
    if arguments.csv:
        _write(Path(arguments.csv), as_csv(rows))
    if arguments.plot:
        _write(Path(arguments.plot), plot(curves(rows), f"{path.name}, simulated"))
    if arguments.json:
        settings_told = msgspec.structs.asdict(settings) | {"order": type(settings.order).__name__}
        give_json(
            {
                "recording": {"header": recorded.header, "footer": recorded.footer},
                "settings": settings_told,
                "runs": rows,
            }
        )
    elif rows:
        give(table(lines(rows), RIGHT))


def _write(path: Path, text: Any) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
