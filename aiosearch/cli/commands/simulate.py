"""`aiosearch simulate`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.switches import add_switches
from ..parser import Parser

HOST_COST = "16us"
"""Reading or writing a message, the books and the strategy: benchmarks/simulated.py measures it."""


DESCRIPTION = """\
Replays a recording (`aiosearch search ... --record-tree FILE`) on a virtual clock: the strategy's
own code and the engine's, pretended time and no processes. Says what a search would gain from so
many workers on so many machines."""
EPILOG = """\
examples:
  aiosearch search aiosearch.workloads.uts:UTS --set depth=8 --record-tree uts.tree
  aiosearch simulate uts.tree --workers 1..64
  aiosearch simulate z3.tree --verdicts shared,private --solver pooled,locked --split height1
  aiosearch simulate uts.tree --strategy all --workers 16..1024 --hosts 8 --scale 100 --plot uts.svg

exit codes: 0 all were simulated, 1 a strategy failed, 2 wrong usage or what cannot be read"""


class SimulateArguments(argparse.Namespace):
    """What `aiosearch simulate` was given."""

    recording: str
    strategy: list[str]
    workers: str
    order: str | None
    hosts: int
    latency: str
    local_latency: str
    host_cost: str
    verdicts: str
    solver: str
    split: str
    checkers: int
    locked: float
    contention: float
    scale: float
    repeat: int
    csv: str | None
    plot: str | None
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
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


def run(arguments: SimulateArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.simulate import run as simulate

    return simulate(arguments)


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
