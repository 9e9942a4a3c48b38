"""What `aiosearch bench strategies` is to compare, read from its flags."""

from __future__ import annotations

import argparse
from typing import Any

from ..comparing.arms import Arm, cross
from ..engine.settings import OnUnknown
from ..orders import ORDERS, find_order
from ..pool import MOST_WORKERS, usable_cores
from ..remote.transports import find_transport, has_transport
from ..strategies import find_strategy, list_strategies
from ..workloads.rungs import RUNGS
from ..workloads.uts import TREES
from .fields import split
from .output import tell
from .problems import build, unshared
from .switches import switches_of
from .usage import UsageError


def workload(arguments: argparse.Namespace) -> Any:
    """The problem: one of the ladder by its name, or any other as for `aiosearch search`."""
    name, given = arguments.workload, split(arguments.set, "--set")
    ladder: dict[str, Any] = {name: tree.problem for name, tree in TREES.items()}
    ladder |= {name: rung.problem for name, rung in RUNGS.items()}
    if name not in ladder:
        if ":" not in name:
            raise UsageError(f"no workload {name!r}: there are {', '.join(ladder)}")
        return build(name, given, None)
    if given:
        raise UsageError(f"--set changes a problem, and {name} of the ladder stays as it is")
    return ladder[name]


def on_unknown_of(arguments: argparse.Namespace) -> OnUnknown:
    """What becomes of a node whose verdict is unknown: as asked, or as the rung says."""
    asked: OnUnknown | None = arguments.on_unknown
    rung = RUNGS.get(arguments.workload)
    return asked or (rung.on_unknown if rung else "defer")


def arms_of(arguments: argparse.Namespace, problem: Any) -> list[Arm]:
    """Every combination of what was asked for."""
    switches = switches_of(arguments)
    return cross(
        _strategies(arguments.strategy, problem),
        _orders(arguments.order, problem),
        _workers(arguments.workers),
        switches.verdicts,
        switches.solver,
        switches.split,
    )


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _strategies(text: str, problem: Any) -> list[str]:
    if text != "all":
        names = _listed(text)
        for name in names:
            find_strategy(name)
            if reason := _unfit(name, problem):
                raise UsageError(f"--strategy {name}: {reason}")
        return names
    names = []
    for info in list_strategies():
        if reason := info.error or _unfit(info.name, problem) or _elsewhere(info.name):
            tell(f"left out: {info.name}: {reason}")
        else:
            names.append(info.name)
    return names


def _unfit(strategy: str, problem: Any) -> str:
    return unshared(problem) if has_transport(strategy) else ""


def _elsewhere(strategy: str) -> str:
    """Why a strategy runs only where it is asked for by name."""
    if has_transport(strategy) and find_transport(strategy).listener(None, None).covers_here:
        return "it brings machines of its own; name it, with --workers as many as those have"
    return ""


def _orders(text: str | None, problem: Any) -> list[str]:
    if text is None:
        kind = type(find_order(None, problem))
        return [next(name for name, order in ORDERS.items() if order is kind)]
    names = _listed(text)
    for name in names:
        find_order(name, problem)
    return names


def _workers(text: str | None) -> list[int]:
    if text is None:
        return [2**power for power in range(usable_cores().bit_length())]
    try:
        numbers = [int(part) for part in _listed(text)]
    except ValueError:
        numbers = []
    if not numbers or not all(0 < number <= MOST_WORKERS for number in numbers):
        raise UsageError(
            f"--workers takes numbers from 1 to {MOST_WORKERS}, as 1,2,4, not {text!r}"
        )
    return numbers
