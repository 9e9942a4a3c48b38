"""How a program travels to other processes: in the text of a module, as a call of `carried`."""

from __future__ import annotations

import functools

from .calling import Call, enter, function
from .lines import opened

_texts: dict[str, str] = {}


@functools.lru_cache(maxsize=256)
def carried(text: str) -> Call:
    """Gives the function of a program that such lines hold."""
    found = opened(text)
    call = function(found.native, found.machine, found.effort)
    _texts[enter(found.native, found.machine, found.effort)] = text
    return call


def carried_texts() -> dict[str, str]:
    """Gives the lines of the programs that this process has, by the names that XLA has for them.

    As of now: other threads may go on and carry more.
    """
    return dict(_texts)
