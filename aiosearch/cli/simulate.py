"""`aiosearch simulate`: what a recorded search would gain from more workers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ..comparing.arms import Arm
from ..comparing.replaying import Replay, Replayed, Setting
from ..errors import StrategyError
from ..orders import find_order
from ..recording import Recorded, load
from ..strategies import find_strategy, list_strategies
from .curves import plot
from .exits import Exit
from .figures import count, duration
from .output import complain, give, give_json, table, tell
from .simulated import RIGHT, as_csv, curves, lines
from .simulating import seconds_of, workers_of
from .switches import Switches, switches_of
from .usage import UsageError


def run(arguments: argparse.Namespace) -> int:
    """Simulates, and gives the exit code."""
    numbers = workers_of(arguments.workers)
    names, switches = _strategies(arguments.strategy), switches_of(arguments)
    path = Path(arguments.recording)
    recorded = load(path)
    setting, order = _setting(arguments), arguments.order or "depth-first"
    find_order(order, recorded)
    if not arguments.json:
        tell(_about(path, recorded, setting, switches))
    replay = Replay(recorded, setting, order)
    rows: list[Replayed] = []
    failed = False
    for line in _lines(names, order, switches):
        try:
            for workers in numbers:
                rows.append(replay.run(replace(line, workers=workers), arguments.repeat))
        except StrategyError as error:
            complain(f"{line.name} with {workers} workers: {error}")
            failed = True
    _give(arguments, path, recorded, setting, order, rows)
    return Exit.FAILED if failed else Exit.FINE


def _lines(names: Sequence[str], order: str, switches: Switches) -> list[Arm]:
    """The ways, without their workers."""
    return [
        Arm(name, order, 0, verdicts, solver, split)
        for name in names
        for verdicts in switches.verdicts
        for solver in switches.solver
        for split in switches.split
    ]


def _strategies(given: Sequence[str]) -> list[str]:
    names = [name.strip() for text in given for name in text.split(",") if name.strip()]
    if "all" in names:
        return [info.name for info in list_strategies() if not info.error]
    for name in names:
        find_strategy(name)
    return list(dict.fromkeys(names)) or ["queue"]


def _setting(arguments: argparse.Namespace) -> Setting:
    for flag in ("hosts", "repeat", "scale"):
        if not getattr(arguments, flag) > 0:
            raise UsageError(f"--{flag} is above zero, not {getattr(arguments, flag)}")
    for flag in ("checkers", "contention"):
        if not getattr(arguments, flag) >= 0:
            raise UsageError(f"--{flag} is not below zero, as {getattr(arguments, flag)} is")
    if not 0 <= arguments.locked <= 1:
        raise UsageError(f"--locked is from 0 to 1, not {arguments.locked}")
    return Setting(
        hosts=arguments.hosts,
        latency=seconds_of(arguments.latency, "--latency"),
        local_latency=seconds_of(arguments.local_latency, "--local-latency"),
        host_cost=seconds_of(arguments.host_cost, "--host-cost"),
        checkers=arguments.checkers,
        locked=arguments.locked,
        contention=arguments.contention,
        scale=arguments.scale,
    )


def _about(path: Path, recorded: Recorded, setting: Setting, switches: Switches) -> str:
    footer = recorded.footer
    whole = "" if footer.complete else ", stopped before its end"
    told = f"{path}: {recorded.header.problem}, {count(footer.nodes)} nodes{whole}, "
    told += f"{duration(recorded.cpu_seconds * setting.scale)} of exploring, "
    told += f"the longest node {duration(recorded.longest * setting.scale)}"
    if footer.questions:
        seconds = duration(footer.check_seconds * setting.scale)
        told += f", {count(footer.questions)} checks of {seconds}"
        if "locked" in switches.solver:
            told += f", {setting.locked:.1%} of each one by one when locked"
            told += f" and {setting.contention:.1%} more for each that waits"
    machines = f"; a message costs the host {setting.host_cost * 1e6:g}us"
    if setting.hosts > 1:
        machines += f", {setting.latency * 1e6:g}us to each of {setting.hosts - 1} machines more"
    return told + machines


def _give(
    arguments: argparse.Namespace,
    path: Path,
    recorded: Recorded,
    setting: Setting,
    order: str,
    rows: Sequence[Replayed],
) -> None:
    if arguments.csv:
        _write(Path(arguments.csv), as_csv(rows))
    if arguments.plot:
        _write(Path(arguments.plot), plot(curves(rows), f"{path.name}, simulated"))
    if arguments.json:
        told: dict[str, Any] = {"order": order, **msgspec.structs.asdict(setting)}
        give_json(
            {
                "recording": {"header": recorded.header, "footer": recorded.footer},
                "settings": told,
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
