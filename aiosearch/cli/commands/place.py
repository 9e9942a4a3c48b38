"""`aiosearch place`: its flags, and what runs it."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_arg, add_json, seed
from ..inputs.values import positive, size
from ..parser import Parser

DESCRIPTION = """\
Finds how a function of JAX arrays runs fastest on all cores of this machine: in blocks of rows that
stay in the cache, shared out over teams of cores. A plan is verified against the function and timed
against jax.jit; where nothing is faster, it says so. Arguments are drawn at random."""
EPILOG = """\
examples:
  aiosearch place mymodule:f --arg f32[262144,64] --arg f32[64,64]
  aiosearch place mymodule:f --arg f32[1000000] --svg timeline.svg --plan f.json
  aiosearch place path/to/file.py:f --arg f32[262144,64] --memory 64M --teams 2

exit codes: 0 whether or not a plan is faster, 2 wrong usage, what cannot be traced, or where no
plan fits the memory, 130 interrupted"""


class PlaceArguments(argparse.Namespace):
    """What `aiosearch place` was given."""

    function: str
    arg: list[str]
    cluster: str
    teams: int | None
    memory: int | None
    seconds: float
    seed: int
    svg: str | None
    plan: str | None
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    parser.add_argument(
        "function", metavar="FUNCTION", help="module:function or path/to/file.py:function"
    )
    add_arg(parser)
    how = parser.add_argument_group("how")
    how.add_argument(
        "--cluster",
        default="auto",
        metavar="FILE",
        help="a description of this machine; by default what `aiosearch cluster measure` kept, or"
        " what is detected",
    )
    how.add_argument(
        "--teams", type=int, metavar="N", help="teams at most; by default one for each core"
    )
    how.add_argument(
        "--memory",
        type=_bytes,
        metavar="SIZE",
        help="what a plan may need beside arguments and results, as 64M",
    )
    how.add_argument(
        "--seconds",
        type=_seconds,
        default=30.0,
        metavar="S",
        help="for how long schedules are measured; by default 30",
    )
    how.add_argument("--seed", type=seed, default=0, metavar="N", help="for all random draws")
    giving = parser.add_argument_group("giving")
    giving.add_argument("--svg", metavar="FILE.svg", help="draw the teams in time")
    giving.add_argument(
        "--plan", metavar="FILE", type=str, help="write the plan as JSON, to edit and to run again"
    )
    add_json(giving)


def run(arguments: PlaceArguments) -> int:
    """Runs the command, and gives the exit code."""
    from ..runs.place import run as place

    return place(arguments)


def _bytes(text: str) -> int:
    try:
        return size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    try:
        return positive(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
