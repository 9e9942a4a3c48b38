"""`aiosearch optimize`: its flags, and what runs it."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...documents import Document
from ...superoptimizer import RANGES
from ..inputs.flags import (
    Flags,
    add_arg,
    add_dtype,
    add_json,
    add_shape,
    add_watch,
    seed,
    user_path,
)
from ..output.streams import UsageError
from ..parser import Parser

_ALONE = {
    "top": 10,
    "svg": None,
    "device": None,
    "block_operators": None,
    "kernels": None,
    "custom_kernels": None,
    "workers": 0,
    "strategy": "queue",
    "journal": None,
    "resume": False,
    "floats": False,
    "bound": False,
    "referee": False,
    "prune": "parts",
}
"""By default, where it is the search alone."""
_TIMED: Document = {
    "constant": [],
    "effort": "default",
    "seconds": None,
    "target": "auto",
    "strict": False,
    "no_kernels": False,
    "emit": None,
    "plot": None,
    "report": None,
    "watch": None,
    "file": None,
    "seed": 0,
}
"""What is about timing, with the defaults."""


DESCRIPTION = """\
Finds a faster function that computes the same, and writes a table of the best few: each is verified
before its time counts, and timed in turns with the original. A target is a function of JAX arrays,
a built-in program or a file. Answers are kept; `aiosearch results` shows them. With --search-only
nothing is timed: all equal programs of fused kernels are searched, and the best predicted told."""
EPILOG = """\
examples:
  aiosearch optimize rms_norm --effort quick
  aiosearch optimize mymodule:f --arg bf16[1,4096] --arg bf16[4096,4096] --emit faster.py
  aiosearch optimize mymodule:f --arg f32[8,4096] --arg f32[4096,4096] --constant 1
  aiosearch optimize attention --shape head=64 --plot attention.svg
  aiosearch optimize mymodule:f --arg f32[8,4096] --effort exhaustive --seconds 60
  aiosearch optimize rms_norm --search-only --device H100 --svg drawings

Ctrl-C ends it with the best so far, once there is one; the same command then goes on.

exit codes: 0 whether or not something was found, 1 z3 disagrees (--referee), 2 wrong usage, what
cannot be traced or searched, or a target that is absent, 130 interrupted before anything faster
was verified"""


class OptimizeArguments(argparse.Namespace):
    """What `aiosearch optimize` was given."""

    function: str
    arg: list[str]
    shape: list[str]
    dtype: str | None
    constant: list[str]
    effort: str
    seconds: float | None
    target: str
    seed: int
    strict: bool
    no_kernels: bool
    search_only: bool
    space: bool
    top: int
    svg: str | None
    device: str | None
    block_operators: int | None
    kernels: int | None
    custom_kernels: int | None
    prune: str
    floats: bool
    bound: bool
    referee: bool
    workers: int
    strategy: str
    journal: str | None
    resume: bool
    emit: str | None
    plot: str | None
    report: str | None
    watch: int | None
    file: Path | None
    quiet: bool
    json: bool


def add_arguments(parser: Parser) -> None:
    """Adds the flags of the command."""
    parser.add_argument(
        "function",
        metavar="TARGET",
        help="module:function, path/to/file.py:function, a built-in program or a file",
    )
    add_arg(parser, "; NAME=TYPE gives it by name")
    add_shape(parser)
    add_dtype(parser)
    parser.add_argument(
        "--constant",
        action="append",
        default=[],
        metavar="NAME",
        help="an argument that stays the same from call to call, by its name or its place from 0;"
        " may be repeated",
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--effort",
        default="default",
        metavar="EFFORT",
        help="quick (mostly under a minute), default or exhaustive",
    )
    how.add_argument(
        "--seconds",
        type=_seconds,
        metavar="S",
        help="end with the best so far after so long; what was found is kept, and the next call"
        " goes on from there",
    )
    how.add_argument(
        "--target", default="auto", metavar="DEVICE", help="cpu, cuda, or auto for what jax takes"
    )
    how.add_argument("--seed", type=seed, default=0, metavar="N", help="for all random draws")
    how.add_argument(
        "--strict",
        action="store_true",
        help="demand nan and infinity where the original gives them",
    )
    how.add_argument(
        "--no-kernels",
        action="store_true",
        help="give plain JAX, and no kernels of our own",
    )
    _add_fusing(parser)
    giving = parser.add_argument_group("giving")
    giving.add_argument("--emit", metavar="FILE", help="write the answer as code that stands alone")
    giving.add_argument(
        "--plot", metavar="FILE.svg", help="draw the times and their noise, and the roofline"
    )
    giving.add_argument(
        "--report", metavar="FILE.html", help="write all that was found as a page for a browser"
    )
    add_watch(giving)
    giving.add_argument("--file", type=user_path, metavar="PATH", help="where answers are kept")
    giving.add_argument("--quiet", "-q", action="store_true", help="show the result only")
    add_json(giving)


def run(arguments: OptimizeArguments) -> int:
    """Runs the command, and gives the exit code."""
    _require_fitting(arguments)
    if arguments.search_only or arguments.space:  # it needs no jax
        from ..runs.optimize.fused_search import run as search_fused

        return search_fused(arguments)
    from ..runs.optimize.faster_function import run as optimize

    return optimize(arguments)


def _add_fusing(parser: Parser) -> None:
    """Adds them to a command."""
    what = parser.add_argument_group("fused kernels", "every equal program of a declared space")
    what.add_argument(
        "--search-only",
        action="store_true",
        help="search them, and tell the best predicted; nothing is compiled or timed",
    )
    what.add_argument("--space", action="store_true", help="say what would be searched, and end")
    _number(what, "--top", "how many programs are ranked, verified and told; by default 10")
    what.add_argument("--svg", metavar="DIR", help="draw each of them into a folder")
    what.add_argument(
        "--device",
        metavar="NAME",
        help="what to predict for: A100, H100, H200, or `this` machine as doctor measured it",
    )
    _limit(what, "--block-operators", "operators of a block at most, loads among them")
    _limit(what, "--kernels", "kernels at most, operators of their own among them")
    _limit(what, "--custom-kernels", "kernels at most that have blocks")
    what.add_argument(
        "--prune",
        choices=("parts", "z3"),
        help="by which terms are parts of the reference, or as Mirage first did, by asking z3 of"
        " every prefix; by default parts",
    )
    what.add_argument(
        "--floats",
        action="store_true",
        default=None,
        help="also compare those told in floating point, at full size; without it what overflows"
        " or loses accuracy is told too",
    )
    what.add_argument(
        "--bound",
        action="store_true",
        default=None,
        help="search for the best predicted alone, and leave out what cannot be better",
    )
    what.add_argument(
        "--referee",
        action="store_true",
        default=None,
        help="also ask z3 once about every term that was accepted",
    )
    what.add_argument(
        "--workers", type=_count, metavar="N", help="worker processes; by default 0, this one"
    )
    what.add_argument("--strategy", metavar="NAME", help="how workers share it; by default queue")
    what.add_argument("--journal", metavar="FILE", help="write a journal, to be resumed from")
    what.add_argument(
        "--resume", action="store_true", default=None, help="go on where the journal stops"
    )


def _require_fitting(arguments: OptimizeArguments) -> None:
    """Refuses flags of the one way that are given for the other, and puts defaults in."""
    alone = arguments.search_only or arguments.space
    for name, default in _ALONE.items():
        value = getattr(arguments, name)
        if value is not None and not alone:
            raise UsageError(f"{_flag(name)} is for fused kernels: give --search-only too")
        setattr(arguments, name, default if value is None else value)
    if arguments.resume and arguments.journal is None:
        raise UsageError("--resume needs the journal to resume from: --journal FILE")
    for name, default in _TIMED.items():
        if alone and getattr(arguments, name) != default:
            raise UsageError(f"{_flag(name)} is about timing, and --search-only times nothing")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _number(group: Flags, flag: str, help: str) -> None:
    group.add_argument(flag, type=_positive, metavar="N", help=help)


def _limit(group: Flags, flag: str, help: str) -> None:
    """A limit of the space, within what it may be."""
    least, most = RANGES[flag[2:].replace("-", "_")]

    def within(text: str) -> int:
        try:
            limit = int(text)
        except ValueError:
            limit = least - 1
        if not least <= limit <= most:
            raise argparse.ArgumentTypeError(f"it is {least} to {most}, not {text}")
        return limit

    group.add_argument(flag, type=within, metavar="N", help=f"{help}, {least} to {most}")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0")
    return seconds


def _positive(text: str) -> int:
    if _count(text) == 0:
        raise argparse.ArgumentTypeError("it has to be 1 or more")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)
