"""Arrays that are kept for long lie in large pages, in which they are read faster in a row."""

from __future__ import annotations

import gc
from typing import Any

import jax
import numpy as np

from ..largepages import LARGE, memory

_WORTH = 2 * LARGE


def let_go() -> None:
    """Frees memory in which arrays were: jax holds on to it until rubbish is collected."""
    gc.collect(0)


def in_large_pages(array: jax.Array) -> jax.Array:
    """The same array, moved if it is large and lies in this machine's memory.

    What jax allocates lies in small pages where a system does not give out large ones unasked.
    """
    devices: list[Any] = [*array.sharding.device_set]
    if array.nbytes < _WORTH or [one.platform for one in devices] != ["cpu"]:
        return array
    let_go()
    values = np.asarray(array)
    try:
        pages = np.frombuffer(memory(array.nbytes), np.uint8)
    except (OSError, OverflowError):  # there is no room for it twice
        return array
    copy = pages.view(values.dtype).reshape(values.shape)
    np.copyto(copy, values)
    found = jax.device_put(copy, array.sharding if array.committed else None, may_alias=True)
    same = found.aval == array.aval and found.sharding == array.sharding
    return found if same else array
