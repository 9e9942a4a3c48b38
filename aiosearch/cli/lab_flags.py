"""The flags of `aiosearch bench` and `aiosearch simulate`, and the cost switches that both have.

The flags of `aiosearch simulate`, and what they mean.

The switches that put the costs of earlier ways back, for `bench strategies` and `simulate`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from ..lab.arms import Solver, Split, Verdicts
from .output.streams import UsageError

if TYPE_CHECKING:
    from .parser import Parser

ValueT = TypeVar("ValueT", bound=str)


class Switches(Struct, frozen=True):
    """The values asked for, of each switch one or both."""

    verdicts: tuple[Verdicts, ...]
    solver: tuple[Solver, ...]
    split: tuple[Split, ...]


def add_switches(parser: argparse.ArgumentParser) -> None:
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
    known: dict[str, ValueT] = {str(value): value for value in values}
    chosen = [part.strip() for part in text.split(",") if part.strip()]
    for value in chosen or [text]:
        if value not in known:
            raise UsageError(f"--{name} is {' or '.join(known)}, or both, not {value!r}")
    return tuple(dict.fromkeys(known[value] for value in chosen))


pass

_ABOUT = """\
Runs one search to the end in every way asked for, in turns, and says what each is worth: time with
its interval, speed-up over one worker of `queue`, balance, contention for the verification service,
redundant questions, idle time, messages and memory. Every way has to give the same answer."""
_BENCH_EXAMPLES = """\
examples:
  aiosearch bench strategies T1 --workers 1,2,4
  aiosearch bench strategies mine:Problem --strategy queue,sockets --order dfs,best --plot out.svg
  aiosearch bench strategies second --verdicts shared,private --split adaptive,height1

A run has processes of its own, which start before its time counts and know no verdicts yet. For
sockets, machines are started on loopback, one worker each. Lists are separated by commas.

exit codes: 0 all ways agree, 1 one gave another answer or could not be run, 2 wrong usage,
130 interrupted, with a table of what was there"""


def add_bench(commands: Any) -> None:
    """Adds the command to those of the console script."""
    bench = commands.add_parser("bench", help="compare ways of running one search")
    actions = bench.add_subparsers(metavar="ACTION", dest="action", required=True)
    parser = actions.add_parser(
        "strategies",
        help="measure strategies, orders and numbers of workers side by side",
        description=_ABOUT,
        epilog=_BENCH_EXAMPLES,
    )
    parser.add_argument(
        "workload",
        metavar="WORKLOAD",
        help="module:Problem or path/to/file.py:Problem, or one of the ladder: T1, T3, T1L, T3L,"
        " small and medium trees, and z3's second, seconds, blocks-seconds, refuted, mixed, ...",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a field of the problem; may be repeated",
    )
    _add_arms(parser)
    add_switches(parser)
    _add_rest(parser)


def _add_arms(parser: argparse.ArgumentParser) -> None:
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


def _add_rest(parser: argparse.ArgumentParser) -> None:
    giving = parser.add_argument_group("giving")
    giving.add_argument("--csv", metavar="FILE", help="write a line for each way")
    giving.add_argument("--plot", metavar="FILE.svg", help="draw speed-up and idle share")
    giving.add_argument("--quiet", "-q", action="store_true", help="show the result only")
    giving.add_argument("--json", action="store_true", help="write JSON")


pass


MOST_WORKERS = 1 << 16
CENTURY = 100 * 365.25 * 24 * 3600.0
"""Nothing that takes longer is simulated."""
HOST_COST = "16us"
"""Reading or writing a message, the books and the strategy: benchmarks/simulated.py measures it."""
_DESCRIPTION = """\
Replays a recording (`aiosearch search ... --record-tree FILE`) on a virtual clock: the strategy's
own code and the engine's, pretended time and no processes. Says what a search would gain from so
many workers on so many machines."""
_SIMULATE_EXAMPLES = """\
examples:
  aiosearch search aiosearch.workloads.uts:UTS --set depth=8 --record-tree uts.tree
  aiosearch simulate uts.tree --workers 1..64
  aiosearch simulate z3.tree --verdicts shared,private --solver pooled,locked --split height1
  aiosearch simulate uts.tree --strategy all --workers 16..1024 --hosts 8 --scale 100 --plot uts.svg

exit codes: 0 all were simulated, 1 a strategy failed, 2 wrong usage or what cannot be read"""
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "": 1.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?(?:e-?\d+)?)\s*(s|ms|us|)")


def add_simulate(commands: argparse._SubParsersAction[Parser]) -> None:
    """Adds the command to the console script."""
    parser = commands.add_parser(
        "simulate",
        help="replay a recorded search with any number of workers",
        description=_DESCRIPTION,
        epilog=_SIMULATE_EXAMPLES,
    )
    parser.add_argument("recording", metavar="RECORDING")
    parser.add_argument(
        "--strategy",
        action="append",
        default=[],
        metavar="NAMES",
        help="queue by default; several with commas, or all; may be repeated",
    )
    parser.add_argument(
        "--workers",
        default="1..64",
        metavar="LIST",
        help="as 1,2,4 or 1..4096, which is every power of two; by default 1..64",
    )
    parser.add_argument("--order", metavar="ORDER", help="by default depth-first")
    _add_machines(parser)
    add_switches(parser)
    _add_solvers(parser)
    _add_work(parser)
    giving = parser.add_argument_group("giving")
    giving.add_argument("--csv", metavar="FILE", help="write every run as a line of a table")
    giving.add_argument("--plot", metavar="FILE.svg", help="draw speed-up and efficiency")
    giving.add_argument("--json", action="store_true", help="write JSON")


def _add_machines(parser: Parser) -> None:
    machines = parser.add_argument_group("machines")
    machines.add_argument(
        "--hosts",
        type=int,
        default=1,
        metavar="N",
        help="machines that the workers are spread over; the first one keeps the books",
    )
    machines.add_argument(
        "--latency",
        default="200us",
        metavar="TIME",
        help="of a message between machines, one way; by default 200us",
    )
    machines.add_argument(
        "--local-latency",
        default="15us",
        metavar="TIME",
        help="of a message on the first machine; by default 15us",
    )
    machines.add_argument(
        "--host-cost",
        default=HOST_COST,
        metavar="TIME",
        help="what a message costs the process that keeps the books, which does one thing at a"
        f" time; by default {HOST_COST}, as measured",
    )


def _add_solvers(parser: Parser) -> None:
    solvers = parser.add_argument_group("z3")
    solvers.add_argument(
        "--checkers",
        type=int,
        default=0,
        metavar="N",
        help="processes where they are pooled; by default one for each worker",
    )
    solvers.add_argument(
        "--locked",
        type=float,
        default=1.0,
        metavar="F",
        help="the share of a check that a locked z3 can do for one worker at a time; by default 1",
    )
    solvers.add_argument(
        "--contention",
        type=float,
        default=0.0,
        metavar="F",
        help="by what share each worker that waits for that makes it take longer; by default 0, a"
        " queue in front of one process",
    )


def _add_work(parser: Parser) -> None:
    work = parser.add_argument_group("work")
    work.add_argument(
        "--scale",
        type=float,
        default=1.0,
        metavar="F",
        help="multiply the times of all nodes and checks",
    )
    work.add_argument(
        "--repeat",
        type=int,
        default=1,
        metavar="N",
        help="simulate N times with other seeds, for strategies that draw; the median counts",
    )


def workers_of(text: str) -> list[int]:
    """Reads numbers with commas, and `1..4096` for every power of two from 1."""
    found: list[int] = []
    for part in text.split(","):
        low, dots, high = part.strip().partition("..")
        if not (low.isdigit() and (high.isdigit() or not dots)):
            raise UsageError(f"--workers takes numbers as 1,2,4 or 1..4096, not {text!r}")
        found += _doubling(int(low), int(high)) if dots else [int(low)]
    if not found or min(found) < 1 or max(found) > MOST_WORKERS:
        raise UsageError(f"--workers takes numbers from 1 to {MOST_WORKERS}, not {text!r}")
    return sorted(set(found))


def _doubling(low: int, high: int) -> list[int]:
    found = []
    while 0 < low < high:
        found.append(low)
        low *= 2
    return [*found, high]


def seconds_of(text: str, flag: str) -> float:
    """Reads 200us, 1.5ms or 0.1s."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{flag} takes a time as 200us, 1.5ms or 0.1s, not {text!r}")
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > CENTURY:
        raise UsageError(f"{flag} is a century at most, not {text!r}")
    return seconds
