"""`aiosearch optimize`: a faster function, or the search alone of fused kernels, and its flags.

The flags of `aiosearch optimize` that are about the search of fused kernels alone.
"""

from __future__ import annotations

import argparse
from typing import Any

from ...superoptimizer.space import RANGES
from ..output.streams import UsageError

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
_TIMED: dict[str, Any] = {
    "constant": [],
    "effort": "default",
    "target": "auto",
    "strict": False,
    "no_kernels": False,
    "emit": None,
    "plot": None,
    "file": None,
    "seed": 0,
}
"""What is about timing, with the defaults."""


def add_fusing(parser: argparse.ArgumentParser) -> None:
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


def require_fitting(arguments: argparse.Namespace) -> None:
    """Refuses flags of the one way that are given for the other, and puts defaults in."""
    alone = arguments.search_only or arguments.space
    for name, default in _ALONE.items():
        given = getattr(arguments, name)
        if given is not None and not alone:
            raise UsageError(f"{_flag(name)} is for fused kernels: give --search-only too")
        setattr(arguments, name, default if given is None else given)
    if arguments.resume and arguments.journal is None:
        raise UsageError("--resume needs the journal to resume from: --journal FILE")
    for name, default in _TIMED.items():
        if alone and getattr(arguments, name) != default:
            raise UsageError(f"{_flag(name)} is about timing, and --search-only times nothing")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _number(group: argparse._ArgumentGroup, flag: str, help: str) -> None:
    group.add_argument(flag, type=_positive, metavar="N", help=help)


def _limit(group: argparse._ArgumentGroup, flag: str, help: str) -> None:
    """A limit of the space, within what it may be."""
    least, most = RANGES[flag[2:].replace("-", "_")]

    def within(text: str) -> int:
        try:
            found = int(text)
        except ValueError:
            found = least - 1
        if not least <= found <= most:
            raise argparse.ArgumentTypeError(f"it is {least} to {most}, not {text}")
        return found

    group.add_argument(flag, type=within, metavar="N", help=f"{help}, {least} to {most}")


def _positive(text: str) -> int:
    if _count(text) == 0:
        raise argparse.ArgumentTypeError("it has to be 1 or more")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)


pass


def run(arguments: argparse.Namespace) -> int:
    """Does what is asked for, and gives the exit code; the search alone needs no jax."""
    require_fitting(arguments)
    if arguments.search_only or arguments.space:
        from ..runs.fused_search import run as fuse

        return fuse(arguments)
    from ..runs.faster_function import run as make_faster

    return make_faster(arguments)
