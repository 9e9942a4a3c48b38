"""What callers give, looked at before anything starts."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeAlias

from .errors import AiosearchError

Wanted: TypeAlias = Mapping[str, tuple[str, Callable[[Any], bool]]]
"""What an argument must be, by its name: in words, and whether a value is that."""


def require(expectations: Wanted, **arguments: Any) -> None:
    """Raises `AiosearchError` for the first argument that is not as its expectation says.

    require({"seed": ("a whole number", is_whole)}, seed="7")   # must be a whole number
    """
    for name, value in arguments.items():
        what, is_that = expectations[name]
        if not is_that(value):
            raise AiosearchError(f"{name} must be {what}, not {value!r}")


def is_whole(value: Any) -> bool:
    # True is an int in Python, and no number of workers
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_positive(value: Any) -> bool:
    """Whether `value` is a finite number above 0."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0


def is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def nearest(name: str, names: Iterable[str]) -> str:
    """Gives ` (did you mean a or b?)` for those of `names` that look like `name`, or nothing."""
    close = difflib.get_close_matches(name, list(names), n=3)
    return f" (did you mean {' or '.join(close)}?)" if close else ""
