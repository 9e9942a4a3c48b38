"""`source_places`: the lines of the user's own code that equations come from.

Example: the equations of a block that `model.py` defines in lines 12 to 31 and calls twelve times
have one place, `SourcePlace("/…/model.py", "block", 12, 31)`.

Of the frames that jax kept of an equation, the innermost one counts that is no installed package's:
a layer of a library stands for the line that called it.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from jax.extend.core import JaxprEqn
from jax.extend.source_info_util import summarize

from ..outcomes.function_parts import SourcePlace

_FRAME = re.compile(r"(.+?):(\d+)(?::\d+)? \((.*)\)")
"""A frame as `summarize` writes it: `model.py:12:4 (loss)`."""
_MOST_FRAMES = 32
"""Frames that are looked at, from the innermost outwards."""
_INSTALLED = tuple(sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib"))


def source_places(equations: Iterable[JaxprEqn]) -> tuple[SourcePlace, ...]:
    """The lines of these equations, a place for each function, in the order of the code."""
    places: dict[tuple[str, str], SourcePlace] = {}
    for equation in equations:
        frame = _user_frame(equation.source_info)
        if frame is None:
            continue
        file, line, function = frame
        place = places.get((file, function), SourcePlace(file, function, line, line))
        places[file, function] = SourcePlace(
            file, function, min(place.first, line), max(place.last, line)
        )
    return tuple(sorted(places.values()))


def _user_frame(info: Any) -> tuple[str, int, str] | None:
    """File, line and function of the innermost frame that is the user's own; of an installed
    package where there is no other."""
    frames = _frames(summarize(info, _MOST_FRAMES))
    own_frames = [frame for frame in frames if not frame[0].startswith(_INSTALLED)]
    return next(iter(own_frames or frames), None)


@lru_cache(4096)
def _frames(text: str) -> tuple[tuple[str, int, str], ...]:
    """The frames of a summary, innermost first: jax writes that one last."""
    matches = (_FRAME.fullmatch(line) for line in reversed(text.splitlines()))
    return tuple(
        (match[1], int(match[2]), _function_name(match[3]))
        for match in matches
        if match is not None
    )


def _function_name(qualified: str) -> str:
    """What a reader calls a function: `loss.<locals>.<genexpr>` is a part of `loss`."""
    names = [name for name in qualified.split(".") if not name.startswith("<")]
    return names[-1] if names else qualified
