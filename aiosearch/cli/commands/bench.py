"""`aiosearch bench`: its flags, and what runs it."""

from __future__ import annotations

import argparse
from typing import Literal

from ..inputs.switches import add_switches
from ..parser import Parser

STRATEGIES = """\
Runs one search to the end in every way asked for, in turns, and says what each is worth: time with
its interval, speed-up over one worker of `queue`, balance, contention for the verification service,
redundant questions, idle time, messages and memory. Every way has to give the same answer."""
EXAMPLES = """\
examples:
  aiosearch bench strategies T1 --workers 1,2,4
  aiosearch bench strategies mine:Problem --strategy queue,sockets --order dfs,best --plot out.svg
  aiosearch bench strategies second --verdicts shared,private --split adaptive,height1

A run has processes of its own, which start before its time counts and know no verdicts yet. For
sockets, machines are started on loopback, one worker each. Lists are separated by commas.

exit codes: 0 all ways agree, 1 one gave another answer or could not be run, 2 wrong usage,
130 interrupted, with a table of what was there"""


DESCRIPTION = ""
EPILOG = ""


class BenchArguments(argparse.Namespace):
    """What `aiosearch bench` was given."""

    action: str
    workload: str
    set: list[str]
    strategy: str
    order: str | None
    workers: str | None
    repeat: int
    seconds: float | None
    on_unknown: Literal["defer", "keep", "drop"] | None
    seed: int
    verdicts: str
    solver: str
    split: str
    csv: str | None
    plot: str | None
    quiet: bool
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    add_action = parser.add_actions(required=True)
    strategies = add_action(
        "strategies",
        help="measure strategies, orders and numbers of workers side by side",
        description=STRATEGIES,
        epilog=EXAMPLES,
    )
    strategies.add_argument(
        "workload",
        metavar="WORKLOAD",
        help="module:Problem or path/to/file.py:Problem, or one of the ladder: T1, T3, T1L, T3L,"
        " small and medium trees, and z3's second, seconds, blocks-seconds, refuted, mixed, ...",
    )
    strategies.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a field of the problem; may be repeated",
    )
    _add_arms(strategies)
    add_switches(strategies)
    _add_rest(strategies)


def run(arguments: BenchArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.bench import run as bench

    return bench(arguments)


def _add_arms(parser: Parser) -> None:
    parser.add_argument("--strategy", default="all", metavar="NAMES", help="by default all")
    parser.add_argument(
        "--order", metavar="NAMES", help="as dfs,bfs,best; by default the natural one"
    )
    parser.add_argument(
        "--workers", metavar="NUMBERS", help="as 1,2,4; by default powers of two up to the cores"
    )
    parser.add_argument(
        "--repeat", type=int, default=3, metavar="N", help="runs of each; by default 3"
    )
    parser.add_argument(
        "--seconds", type=float, metavar="SECONDS", help="break a run off that takes longer"
    )
    parser.add_argument(
        "--on-unknown",
        choices=("defer", "keep", "drop"),
        help="for nodes of which z3 cannot say; by default defer, or as a rung has it",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="for the order of the runs"
    )


def _add_rest(parser: Parser) -> None:
    giving = parser.add_argument_group("giving")
    giving.add_argument("--csv", metavar="FILE", help="write a line for each way")
    giving.add_argument("--plot", metavar="FILE.svg", help="draw speed-up and idle share")
    giving.add_argument("--quiet", "-q", action="store_true", help="show the result only")
    giving.add_argument("--json", action="store_true", help="write JSON")
