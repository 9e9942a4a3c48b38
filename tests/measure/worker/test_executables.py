"""Loops that are timed: how many turns they have, and on which copies of the inputs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.measure import ArrayType
from aiosearch.measure.worker.executables import (
    CPU_LOOP,
    GPU_TURNS,
    MOST_LOOP_BYTES,
    MOST_LOOP_COPIES,
    TimingLoop,
    repeated,
    timing_loop,
)
from aiosearch.measure.worker.inputs import ColdInputs, CopyRing
from aiosearch.measure.worker.timing import Runner

WEIGHTS = [ArrayType("bfloat16", (8, 4096)), ArrayType("bfloat16", (4096, 6144))]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_each_copy_has_its_own_result(copies: int) -> None:
    sets = [(jnp.full(3, float(at)), jnp.full(3, 10.0)) for at in range(copies)]
    flat = [one for each in sets for one in each]
    results = jax.jit(repeated(lambda x, y: x + y, 8, copies))(*flat)
    assert [float(one[0]) for one in results] == [10.0 + at for at in range(copies)]


def test_every_turn_runs() -> None:
    """A turn that is left out, or computed once for all, does not call back."""
    seen: list[float] = []

    def told(x: jax.Array) -> jax.Array:
        jax.debug.callback(lambda value: seen.append(float(value)), x)
        return x + 1

    jax.block_until_ready(jax.jit(repeated(told, 8, 2))(jnp.float32(1), jnp.float32(2)))
    jax.effects_barrier()
    assert sorted(seen) == [1.0] * 4 + [2.0] * 4


def test_on_a_processor_inputs_stay_the_same() -> None:
    assert timing_loop(WEIGHTS) == CPU_LOOP == TimingLoop(16, 1)


@pytest.mark.usefixtures("gpu")
def test_on_a_gpu_so_many_copies_take_turns_that_no_cache_holds_them() -> None:
    assert timing_loop(WEIGHTS) == TimingLoop(GPU_TURNS, 4)
    assert timing_loop([ArrayType("float32", (8,))]) == TimingLoop(GPU_TURNS, MOST_LOOP_COPIES)


@pytest.mark.usefixtures("gpu")
def test_of_inputs_beyond_any_cache_there_is_one_copy_and_fewer_turns() -> None:
    loop = timing_loop([ArrayType("float32", (1 << 30,))])
    assert loop.copies == 1
    assert loop.turns < GPU_TURNS
    assert loop.turns * (4 << 30) <= max(MOST_LOOP_BYTES, CPU_LOOP.turns * (4 << 30))


def test_a_sample_of_a_loop_is_of_one_turn_on_all_copies() -> None:
    ring = CopyRing(np.array([1]), np.copy)
    seen: list[tuple[int, ...]] = []

    def looped(*arrays: np.ndarray) -> list[np.ndarray]:
        seen.append(tuple(map(id, arrays)))
        return list(arrays)

    runner = Runner(looped, looped, ColdInputs([ring]), False, TimingLoop(128, 4))
    runner.loop()
    assert len(set(seen[0])) == 4
    assert seen[0] == tuple(map(id, ring.copies))
