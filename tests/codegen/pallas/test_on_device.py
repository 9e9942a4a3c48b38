"""Kernels compiled and run on a GPU, and what else can be known nowhere else.

    XLA_PYTHON_CLIENT_PREALLOCATE=false pytest -n0 -m cuda

Where jax has no GPU all of these are skipped; `test_cubin.py` compiles the same for one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import name_of, plans, write
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.devices import Device, device
from aiosearch.measure import Candidate, Failure, JaxExecutor, Way
from aiosearch.measure.random_inputs import draw
from aiosearch.measure.worker.executables import GPU_TURNS, GRAPH, repeated
from aiosearch.optimizer import optimize_sync
from aiosearch.optimizer.array_types import array_types
from aiosearch.optimizer.candidates.jax_source import emit, names
from aiosearch.optimizer.device_kind import described_gpu
from aiosearch.tensor import Program
from aiosearch.tensor.programs import BUILTINS, builtin

pytestmark = pytest.mark.cuda
POISONED_BYTES = 64 << 20


@pytest.fixture
def gpu() -> Device:
    name = described_gpu()
    if not name:
        pytest.skip("this GPU is not described in aiosearch/devices.json")
    return device(name)


def defined(source: str, name: str) -> Any:
    scope: dict[str, Any] = {}
    exec(compile(source, "candidate.py", "exec"), scope)
    return jax.jit(scope[name])


def inputs_of(program: Program) -> list[Any]:
    types = enumerate(array_types(program))
    return [jnp.asarray(draw(one, 0, at), one.dtype) for at, one in types]


def in_float64(program: Program, inputs: Sequence[Any]) -> list[Any]:
    with jax.enable_x64(True):
        wide = [jnp.asarray(np.asarray(one), np.float64) for one in inputs]
        results = defined(emit(program), names(program)[0])(*wide)
        return [np.asarray(one) for one in jax.tree.leaves(results)]


def error_of(results: Sequence[Any], truth: Sequence[Any]) -> float:
    pairs = [
        (np.asarray(one).astype(np.float64), other)
        for one, other in zip(results, truth, strict=True)
    ]
    return max(float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in pairs)


@pytest.mark.parametrize("name", BUILTINS)
def test_kernels_are_right_in_memory_that_holds_nan(name: str, gpu: Device) -> None:
    program = builtin(name, "bf16")
    (best,) = plans(fuse_kernels(lower(program)), gpu, 1)
    call = defined(write(best.module, best.schedules), name_of(best.module))
    inputs = inputs_of(program)
    shapes = [(one.shape, one.dtype) for one in jax.tree.leaves(call(*inputs))]
    poison = [jnp.full(shape, jnp.nan, dtype) for shape, dtype in shapes * 4]
    poison.append(jnp.full((POISONED_BYTES // 4,), jnp.nan, jnp.float32))
    jax.block_until_ready(poison)
    del poison
    results = jax.tree.leaves(call(*inputs))
    own = jax.tree.leaves(defined(emit(program), names(program)[0])(*inputs))
    truth = in_float64(program, inputs)
    assert error_of(results, truth) < max(1e-2, 2 * error_of(own, truth))


def test_turns_of_a_timing_loop_follow_one_another(gpu: Device) -> None:
    """Four copies in one graph take as long for each turn as one copy does, and not a quarter."""
    program = builtin("rms_norm", "bf16")
    (best,) = plans(fuse_kernels(lower(program)), gpu, 1)
    function = defined(write(best.module, best.schedules), name_of(best.module))
    inputs = inputs_of(program)
    seconds = {}
    for copies in (1, 4):
        flat = [one + 0 for _ in range(copies) for one in inputs]
        lowered = jax.jit(repeated(function, GPU_TURNS, copies)).lower(*flat)
        loop = lowered.compile(compiler_options={**GRAPH})
        taken = []
        for _ in range(5):
            began = time.perf_counter()
            jax.block_until_ready(loop(*flat))
            taken.append(time.perf_counter() - began)
        seconds[copies] = min(taken)
    assert seconds[4] > 0.8 * seconds[1]


async def test_a_candidate_is_compiled_run_and_raced(gpu: Device) -> None:
    program = builtin("rms_norm", "bf16", row=1)
    (best,) = plans(fuse_kernels(lower(program)), gpu, 1)
    source, name = write(best.module, best.schedules), name_of(best.module)
    inputs = inputs_of(program)
    async with JaxExecutor("cuda", compilers=1) as executor:
        compiled = await executor.compile(Candidate("ours", source, name, array_types(program)))
        assert not isinstance(compiled, Failure), compiled
        results = await executor.run(compiled, [np.asarray(one) for one in inputs])
        assert not isinstance(results, Failure), results
        assert error_of(results, in_float64(program, inputs)) < 1e-2
        race = await executor.race([compiled], rounds=6, seconds=1.0)
        (lap,) = race.laps
        assert lap.failure is None
        assert lap.samples[Way.LOOPED].median() < lap.samples[Way.HOT].median()


def test_what_is_optimized_there_runs_there() -> None:
    def normalised(x: jax.Array, w: jax.Array) -> jax.Array:
        return (x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True))) @ w

    x, w = jnp.ones((8, 1024), jnp.bfloat16), jnp.ones((1024, 1024), jnp.bfloat16)
    fast = optimize_sync(normalised, x, w, effort="quick", target="cuda")
    np.testing.assert_allclose(
        np.asarray(fast(x, w), np.float32), np.asarray(normalised(x, w), np.float32), rtol=2e-2
    )
