"""Programs in the source text of a module, as calls of `carried`.

Emitted modules import this one by name, so neither its name nor that of `carried` can change.
"""

from __future__ import annotations

import functools

from .embedded_source import decode_program
from .jax_call import Call, jax_function, register_program

_texts: dict[str, str] = {}
"""The lines of each program, by the name XLA has for it."""


@functools.lru_cache(maxsize=256)
def carried(text: str) -> Call:
    """The JAX function of the program in such lines."""
    embedded = decode_program(text)
    # Registered first, so that a kernel that fails its trial is not listed as carried.
    call = jax_function(embedded.native, embedded.machine, embedded.effort)
    _texts[register_program(embedded.native, embedded.machine, embedded.effort)] = text
    return call


def carried_texts() -> dict[str, str]:
    """A snapshot of the lines of all programs in this process, by the names that XLA has for
    them."""
    return dict(_texts)
