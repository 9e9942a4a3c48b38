"""Arrays in huge pages, in which sequential reads are faster."""

from __future__ import annotations

import gc
from typing import Any

import jax
import numpy as np

from ...memory import HUGE_PAGE_BYTES, huge_page_mapping

_WORTH = 2 * HUGE_PAGE_BYTES


def free_unreferenced_arrays() -> None:
    """Frees memory in which arrays were: jax holds on to it until rubbish is collected."""
    gc.collect(0)


def in_huge_pages(array: jax.Array) -> jax.Array:
    """The same array, moved if it is large and lies in this machine's memory.

    What jax allocates lies in small pages where a system does not give out large ones unasked;
    a large weight is then read more slowly, for each of its pages needs a translation.
    """
    devices: list[Any] = [*array.sharding.device_set]
    if array.nbytes < _WORTH or [device.platform for device in devices] != ["cpu"]:
        return array
    free_unreferenced_arrays()
    values = np.asarray(array)
    try:
        pages = np.frombuffer(huge_page_mapping(array.nbytes), np.uint8)
    except (OSError, OverflowError):  # there is no room for it twice
        return array
    copy = pages.view(values.dtype).reshape(values.shape)
    np.copyto(copy, values)
    moved = jax.device_put(copy, array.sharding if array.committed else None, may_alias=True)
    same = moved.aval == array.aval and moved.sharding == array.sharding
    return moved if same else array
