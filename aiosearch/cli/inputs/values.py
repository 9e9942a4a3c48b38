"""Readers of a setting's value, from a flag's text or a TOML file, and names of files.

Files that a user names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from ..output.units import parse_size

RawValue: TypeAlias = Any
"""A setting as it comes: a flag's text, or what a TOML file has."""

Reader: TypeAlias = Callable[[RawValue], Any]
"""Gives the value, or raises ValueError."""


def whole(least: int | None) -> Reader:
    def read(value: RawValue) -> int:
        if isinstance(value, bool | float):
            raise ValueError(value)
        number = int(value)
        if least is not None and number < least:
            raise ValueError(value)
        return number

    return read


def positive(value: RawValue) -> float:
    if isinstance(value, bool):
        raise ValueError(value)
    number = float(value)
    if not number > 0:
        raise ValueError(value)
    return number


def size(value: RawValue) -> int:
    number = parse_size(value) if isinstance(value, str) else whole(1)(value)
    if number < 1:
        raise ValueError(value)
    return int(number)


def choice_of(names: Iterable[str]) -> Reader:
    allowed = set(names)

    def read(value: RawValue) -> str:
        if value not in allowed:
            raise ValueError(value)
        return str(value)

    return read


def text(value: RawValue) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value


def cache(value: RawValue) -> Path | str | None:
    """Reads a path, `default`, or `off` (in TOML also false)."""
    if value is False or value == "off":
        return None
    if text(value) == "default":
        return "default"
    return Path(value).expanduser()


def is_file(name: str | Path) -> bool:
    """Whether there is one of that name; of a name that none can have, there is none."""
    try:
        return Path(name).is_file()
    except OSError:
        return False
