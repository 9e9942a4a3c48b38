"""Arrays that are kept lie in large pages, and are the same arrays."""

from __future__ import annotations

import gc
import mmap
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from aiosearch.measure.worker.huge_pages import free_unreferenced_arrays, in_huge_pages
from aiosearch.memory import HUGE_PAGE_BYTES

ROWS = 3 * HUGE_PAGE_BYTES // 4096


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool"])
def test_a_large_array_is_the_same_where_a_page_begins(dtype: str) -> None:
    array = jnp.arange(ROWS * 4096).reshape(ROWS, 4096).astype(dtype)
    found = in_huge_pages(array)
    assert found.unsafe_buffer_pointer() % mmap.PAGESIZE == 0
    assert (found.aval, found.sharding, found.committed) == (
        array.aval,
        array.sharding,
        array.committed,
    )
    assert bool((found == array).all())


def test_an_array_that_was_put_somewhere_stays_there() -> None:
    array = jax.device_put(jnp.ones((ROWS, 4096)), jax.devices("cpu")[0])
    found = in_huge_pages(array)
    assert found.committed
    assert found.sharding == array.sharding


def test_small_ones_stay_where_they_are() -> None:
    for shape in ((), (0,), (0, 5), (512, 1024)):
        array = jnp.ones(shape)
        assert in_huge_pages(array) is array


def test_an_array_stays_where_it_is_without_room_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(size: int) -> mmap.mmap:
        raise OSError(12, "no memory")

    monkeypatch.setattr("aiosearch.measure.worker.huge_pages.huge_page_mapping", full)
    array = jnp.ones((ROWS, 4096))
    assert in_huge_pages(array) is array


def test_what_a_trace_makes_is_moved_too() -> None:
    array = jnp.ones((ROWS, 4096))

    @jax.jit
    def traced(x: jax.Array) -> jax.Array:
        with jax.ensure_compile_time_eval():
            kept = in_huge_pages(array + 1)
        assert kept.unsafe_buffer_pointer() % mmap.PAGESIZE == 0
        return kept + x

    assert bool((traced(array) == 3).all())


def test_memory_of_arrays_that_are_gone_is_free() -> None:
    """Though nothing collects rubbish meanwhile; the last one may still be there."""
    array = jnp.ones((ROWS, 4096))
    gc.collect()
    gc.disable()
    try:
        before = mapped()
        for _ in range(20):
            in_huge_pages(array)
        assert mapped() - before < 3 * array.nbytes
        free_unreferenced_arrays()
        assert mapped() - before < array.nbytes
    finally:
        gc.enable()


def mapped() -> int:
    """Bytes of this process's own memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = [line for line in lines if line.startswith("VmData:")]
    return int(found.split()[1]) * 1024
