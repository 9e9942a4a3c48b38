"""Memory between pages that nobody may touch."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from aiosearch.codegen.native.guarded_run import GuardedBytes


@pytest.mark.parametrize("size", [0, 1, 100, mmap.PAGESIZE, 3 * mmap.PAGESIZE + 7])
def test_against_either_page(size: int) -> None:
    """The bytes end where a page ends, then begin where one begins, and can all be written."""
    memory = GuardedBytes(size)
    memory.move(at_end=True)
    assert (memory.address + size) % mmap.PAGESIZE == 0
    memory.view[:] = 7
    memory.move(at_end=False)
    assert memory.address % mmap.PAGESIZE == 0
    memory.view[:] = 8
    assert memory.view.tolist() == [8] * size


def test_whole_pages_stay_where_they_are() -> None:
    """Arrays of whole pages lie against both, so that they need not be filled again."""
    memory = GuardedBytes(2 * mmap.PAGESIZE)
    assert memory.move(at_end=True)
    assert not memory.move(at_end=False)


def test_filling() -> None:
    """What is longer than a tile repeats it, cut off at the end."""
    memory = GuardedBytes(10)
    memory.move(at_end=True)
    memory.fill(np.arange(4, dtype=np.uint8))
    assert memory.view.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
