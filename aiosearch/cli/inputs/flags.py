"""Flags that several commands have, and what their values may be."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any, Protocol, TypeAlias

ArgparseOption: TypeAlias = Any
"""A keyword argument of a parser or a flag; argparse gives each a type of its own."""


class Flags(Protocol):
    """What flags are added to: a `Parser`, or a group of one in its help."""

    def add_argument(self, *names: str, **options: ArgparseOption) -> object: ...


def seed(text: str) -> int:
    """Reads a seed; argparse says what was wrong with it."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)


_AGE = re.compile(r"(\d+)([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}


def age(text: str) -> float:
    """Reads `30d`, `12h` or `2w`, in seconds; argparse says what was wrong with it."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age: write 12h, 30d or 2w")
    return 3600.0 * int(match[1]) * _HOURS[match[2]]


def count(text: str) -> int:
    """Reads how many; argparse says what was wrong with it."""
    number = text.replace(",", "").replace("_", "")
    if not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(number)


def user_path(text: str) -> Path | None:
    """Reads a path, in which `~` is the user's folder; no text is no path."""
    return Path(text).expanduser() if text else None


def add_arg(parser: Flags, note: str = "") -> None:
    """Adds `--arg`, the type of an argument; `more` ends its help."""
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="TYPE",
        help="the type of a function's next argument, as f32[16,4096], or NAME=VALUE of one that is"
        " no array: n=3, exact=true, key=key(0); may be repeated" + note,
    )


def add_dtype(parser: Flags, usual: str = "bf16") -> None:
    """Adds `--dtype`, the element type of a built-in program."""
    parser.add_argument(
        "--dtype",
        metavar="TYPE",
        help=f"the element type of a built-in program; by default {usual}",
    )


def add_shape(parser: Flags) -> None:
    """Adds `--shape`, a size of a built-in program."""
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=N",
        help="a size of a built-in program; may be repeated",
    )


def add_token(parser: Flags) -> None:
    """Adds `--token-file`, what all machines of a search must know."""
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="what all machines must know, in a file that only you can read; on this machine alone"
        " it may be left out",
    )


def add_patience(parser: Flags) -> None:
    """Adds `--patience`, after how long a silent machine is given up."""
    parser.add_argument(
        "--patience",
        type=float,
        default=5.0,
        metavar="S",
        help="give the other end up after so many seconds of silence; by default 5",
    )


def add_watch(group: Flags) -> None:
    """Adds --watch to a command that runs for long."""
    group.add_argument(
        "--watch",
        type=port,
        metavar="PORT",
        help="serve that page on this machine while it runs; 0 takes a free port",
    )


def port(text: str) -> int:
    """A TCP port; 0 stands for any that is free."""
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return int(text)


def add_json(parser: Flags) -> None:
    """Adds `--json`."""
    parser.add_argument("--json", action="store_true", help="write JSON")
