"""The switches that put the costs of earlier ways back, for `bench strategies` and `simulate`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

from ...lab.arms import Solver, Split, Verdicts
from ..output.streams import UsageError
from ..parser import Parser

ValueT = TypeVar("ValueT", bound=str)


class Switches(Struct, frozen=True):
    """The values asked for, of each switch one or both."""

    verdicts: tuple[Verdicts, ...]
    solver: tuple[Solver, ...]
    split: tuple[Split, ...]


def add_switches(parser: Parser) -> None:
    """Adds them to a command."""
    switches = parser.add_argument_group("switches, each one or both")
    for name, values, help in (
        ("verdicts", "shared,private", "whether all workers know a verdict, or who asked"),
        ("solver", "pooled,locked", "a z3 process for each worker, or one for all"),
        ("split", "adaptive,height1", "the strategy's own, or cut at depth one once and for all"),
    ):
        switches.add_argument(
            f"--{name}", default=values.partition(",")[0], metavar=values, help=help
        )


def switches_of(arguments: argparse.Namespace) -> Switches:
    """Reads them; refuses what is no value of one."""
    return Switches(
        _chosen("verdicts", arguments.verdicts, ("shared", "private")),
        _chosen("solver", arguments.solver, ("pooled", "locked")),
        _chosen("split", arguments.split, ("adaptive", "height1")),
    )


def _chosen(name: str, text: str, values: Sequence[ValueT]) -> tuple[ValueT, ...]:
    by_text: dict[str, ValueT] = {str(value): value for value in values}
    chosen = [part.strip() for part in text.split(",") if part.strip()]
    for value in chosen or [text]:
        if value not in by_text:
            raise UsageError(f"--{name} is {' or '.join(by_text)}, or both, not {value!r}")
    return tuple(dict.fromkeys(by_text[value] for value in chosen))
