"""Programs that travel in the text of a module, as calls of `carried`; the module's name is part
of that text."""

from __future__ import annotations

import functools

from .embedded_source import decode_program
from .jax_call import Call, jax_function, register_program

_texts: dict[str, str] = {}


@functools.lru_cache(maxsize=256)
def carried(text: str) -> Call:
    """Gives the function of a program that such lines hold."""
    found = decode_program(text)
    call = jax_function(found.native, found.machine, found.effort)
    _texts[register_program(found.native, found.machine, found.effort)] = text
    return call


def carried_texts() -> dict[str, str]:
    """Gives the lines of the programs that this process has, by the names that XLA has for them.

    As of now: other threads may go on and carry more.
    """
    return dict(_texts)
