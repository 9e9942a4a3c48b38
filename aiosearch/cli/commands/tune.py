"""`aiosearch tune`: the fastest configuration of a kernel, and its flags."""

from __future__ import annotations

import argparse

from ..inputs.flags import add_json, seed
from ..output.streams import UsageError
from ..parser import Parser

DESCRIPTION = """\
Finds the fastest configuration of a kernel that @aiosearch.tunable decorates, for one kind of
arguments, and writes it to a table. Each candidate is compiled in a process that may die of it, and
held to the reference before its time counts. Ctrl-C races what it has; pressed twice, it keeps the
fastest that was verified, and ends."""
EPILOG = """\
examples:
  aiosearch tune mymodule:kernel --arg f32[1024,1024] --arg f32[1024,1024] --seconds 30
  aiosearch tune path/to/kernels.py:softmax --arg f32[2048,256] --table tuned.json --plot search.svg
  aiosearch tune mymodule:kernel --arg f32[8,64] --table tuned.json --frozen
  aiosearch tune mymodule:kernel --arg f32[8,64] --explain
  aiosearch tune mymodule:model --whole --arg f32[8,64] --seconds 600
  aiosearch tune --replay recorded/softmax.json --algorithm evolution --algorithm random

exit codes: 0 tuned, or in the table; 2 wrong usage, what cannot be tuned, or --frozen and no
record; 130 interrupted"""


class TuneArguments(argparse.Namespace):
    """What `aiosearch tune` was given."""

    kernel: str | None
    arg: list[str]
    seconds: float | None
    trials: int | None
    algorithm: list[str]
    model: str
    seed: int
    table: str | None
    again: bool
    frozen: bool
    whole: bool
    seeds: str | None
    explain: bool
    replay: str | None
    plot: str | None
    quiet: bool
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    parser.add_argument(
        "kernel", nargs="?", metavar="KERNEL", help="module:function, or path/to/file.py:function"
    )
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="TYPE",
        help="an argument: a type such as f32[16,4096], or a number; NAME=TYPE gives it by name;"
        " may be repeated",
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--seconds", type=_seconds, metavar="S", help="stop after so long; by default 60"
    )
    how.add_argument("--trials", type=_count, metavar="N", help="stop after so many points")
    how.add_argument(
        "--algorithm",
        action="append",
        default=[],
        metavar="NAME",
        help="evolution (the default), best-first, random, exhaustive, or a plugin's; with --replay"
        " several are compared",
    )
    how.add_argument(
        "--model",
        default="auto",
        metavar="NAME",
        help="auto, lightgbm or trees, which needs nothing",
    )
    how.add_argument("--seed", type=seed, default=0, metavar="N", help="for all random draws")
    how.add_argument(
        "--whole",
        action="store_true",
        help="KERNEL is any JAX function: tune the kernels of all its regions within --seconds",
    )
    how.add_argument(
        "--seeds",
        metavar="FILE",
        help="try the configurations of this file first: a table of ours or of tokamax, or plain"
        " JSON; may be of other shapes",
    )
    keeping = parser.add_argument_group("keeping")
    keeping.add_argument(
        "--table", metavar="FILE", help="the table; by default the kernel's own, or the user's"
    )
    keeping.add_argument(
        "--again", action="store_true", help="tune although the table has a record"
    )
    keeping.add_argument(
        "--frozen", action="store_true", help="time nothing; fail where the table has no record"
    )
    keeping.add_argument(
        "--replay",
        metavar="FILE",
        help="instead of a kernel, compare algorithms on a space whose points were all measured",
    )
    showing = parser.add_argument_group("showing")
    showing.add_argument(
        "--explain", action="store_true", help="time nothing; say what the record in the table is"
    )
    showing.add_argument("--plot", metavar="FILE.svg", help="draw the search")
    showing.add_argument("--quiet", "-q", action="store_true", help="show the result only")
    add_json(showing)


def run(arguments: TuneArguments) -> int:
    """Does what is asked for, and gives the exit code; a replay needs no jax."""
    if arguments.replay is not None:
        if arguments.kernel is not None or arguments.arg:
            raise UsageError("--replay takes the place of a kernel and its arguments")
        from ..runs.space_replay import run as replay

        return replay(arguments)
    if arguments.kernel is None:
        raise UsageError("name a kernel, module:function, or a recorded space: --replay FILE")
    if len(arguments.algorithm) > 1:
        raise UsageError("several --algorithm are for --replay; a kernel is tuned by one")
    if arguments.whole:
        refused = ("trials", "algorithm", "seeds", "frozen", "explain", "plot")
        for name in refused:
            if getattr(arguments, name):
                raise UsageError(
                    f"--whole has no --{name}; it takes --seconds, --table and --again"
                )
    from ..runs.kernel_tuning import run as tune

    return tune(arguments)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)
