"""The first contact with a GPU: each thing that all else stands on, tried one after the other.

    python benchmarks/device/first_contact.py [--dry]

A line for each, `ok` or `FAIL` with the reason; the exit code is 1 where one fails.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np

from aiosearch.tensor import Program

DRY = "--dry" in sys.argv
SMALL = {"feature": 256, "column": 128}
"""Sizes of the normalised linear layer where kernels are interpreted."""
LIMIT = 1e-2
"""Of the relative error of bfloat16 results; they come to 1e-3 to 5e-3."""


def error_of(result: Any, truth: Any) -> float:
    wide = np.asarray(result).astype(np.float64)
    return float(np.linalg.norm(wide - truth) / np.linalg.norm(truth))


def plain_jax() -> str:
    x = jnp.linspace(-2, 2, 4096, dtype=jnp.float32).reshape(64, 64)
    result = jax.jit(lambda x: jnp.exp(x) @ jnp.tanh(x).T)(x)
    wide = np.asarray(x, np.float64)
    error = error_of(result, np.exp(wide) @ np.tanh(wide).T)
    assert error < 2e-3, error
    return f"error {error:.1e}; 1e-3 is TF32, 1e-6 float32"


def smallest_kernel() -> str:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plt

    def kernel(x: Any, y: Any, out: Any) -> None:
        out[...] = jnp.exp(x[...]) + y[...]

    x = jnp.arange(256, dtype=jnp.float32) / 256
    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=DRY,
        compiler_params=plt.CompilerParams(num_warps=4, num_stages=2),
    )
    error = error_of(jax.jit(call)(x, x), np.exp(np.asarray(x, np.float64)) + np.asarray(x))
    assert error < 1e-6, error
    return f"error {error:.1e}"


def normalised_product(rows: int) -> tuple[Program, str, Callable[..., Any], list[Any]]:
    """The program, the text of its best kernel by prediction, its function, and inputs."""
    from aiosearch.codegen.lower.lowering import lower
    from aiosearch.codegen.pallas import name_of, plans, write
    from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
    from aiosearch.devices import device
    from aiosearch.measure.random_inputs import draw
    from aiosearch.optimizer.array_types import array_types
    from aiosearch.optimizer.device_kind import described_gpu
    from aiosearch.tensor.programs import builtin

    program = builtin("rms_norm", "bf16", row=rows, **(SMALL if DRY else {}))
    gpu = device("H100" if DRY else described_gpu() or "H100")
    (best,) = plans(fuse_kernels(lower(program)), gpu, 1)
    text = write(best.module, best.schedules)
    if DRY:
        text = text.replace("interpret=False)", "interpret=True)")
    scope: dict[str, Any] = {}
    exec(compile(text, "candidate.py", "exec"), scope)
    inputs = [
        jnp.asarray(draw(array_type, 0, at), array_type.dtype)
        for at, array_type in enumerate(array_types(program))
    ]
    return program, text, scope[name_of(best.module)], inputs


def truth(inputs: Sequence[Any]) -> Any:
    x, w = (np.asarray(array).astype(np.float64) for array in inputs)
    return (x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True))) @ w


def our_kernel(rows: int) -> str:
    _, _, function, inputs = normalised_product(rows)
    call = jax.jit(function)
    began = time.monotonic()
    result = jax.block_until_ready(call(*inputs))
    first = time.monotonic() - began
    error = error_of(result, truth(inputs))
    assert error < LIMIT, error
    again = call(*inputs)
    assert (np.asarray(result) == np.asarray(again)).all(), "a second run differs"
    return f"error {error:.1e}, first call {first:.1f} s"


def timing_loop_of_many_turns() -> str:
    """That a loop rotates its inputs, and that its turns follow one another."""
    from aiosearch.measure.worker.executables import GPU_TURNS, GRAPH, repeated

    _, _, function, inputs = normalised_product(8)
    copies = [inputs, *([array + 0 for array in inputs] for _ in range(3))]
    flat = [array for copy in copies for array in copy]
    seconds = {}
    for count in (1, 4):
        loop = jax.jit(repeated(function, GPU_TURNS if not DRY else 8, count))
        options = {} if DRY else {**GRAPH}
        call = loop.lower(*flat[: count * len(inputs)]).compile(compiler_options=options)
        results = call(*flat[: count * len(inputs)])
        assert all(error_of(result, truth(inputs)) < LIMIT for result in results), (
            "the loop is wrong"
        )
        turns = []
        for _ in range(9):
            began = time.perf_counter()
            jax.block_until_ready(call(*flat[: count * len(inputs)]))
            turns.append((time.perf_counter() - began) / GPU_TURNS)
        seconds[count] = sorted(turns)[4]
    shown = ", ".join(f"{count} copies {value * 1e6:.2f} us" for count, value in seconds.items())
    assert DRY or seconds[4] > 0.8 * seconds[1], f"turns run at the same time: {shown}"
    return f"a turn of {shown}"


def executor() -> str:
    """One candidate through the executor: compiled in a worker, run and raced in another."""
    from aiosearch.measure import Candidate, Failure, JaxExecutor
    from aiosearch.optimizer.array_types import array_types

    program, text, function, inputs = normalised_product(8)

    async def main() -> str:
        async with JaxExecutor("cuda", compilers=2) as race_executor:
            candidate = Candidate("ours", text, function.__name__, array_types(program))
            compiled = await race_executor.compile(candidate)
            assert not isinstance(compiled, Failure), compiled
            results = await race_executor.run(compiled, [np.asarray(array) for array in inputs])
            assert not isinstance(results, Failure), results
            error = error_of(results[0], truth(inputs))
            assert error < LIMIT, error
            race = await race_executor.race([compiled], rounds=6, seconds=2.0)
            (lap,) = race.laps
            assert lap.failure is None, lap.failure
            ways = {
                way.value: f"{sample.median() * 1e6:.1f} us" for way, sample in lap.samples.items()
            }
            return f"{race_executor.device.device}, compiled in {compiled.seconds:.1f} s, {ways}"

    return asyncio.run(main())


STEPS: Sequence[tuple[str, Callable[[], str]]] = (
    ("plain jax", plain_jax),
    ("the smallest kernel", smallest_kernel),
    ("rms_norm, one row", lambda: our_kernel(1)),
    ("rms_norm, eight rows", lambda: our_kernel(8)),
    ("the timing loop", timing_loop_of_many_turns),
    ("the executor", executor),
)


def main() -> int:
    failed = 0
    for name, step in STEPS:
        began = time.monotonic()
        try:
            result = step()
        except Exception as error:  # of whichever part: the next ones are tried all the same
            failed += 1
            lines = str(error).strip().splitlines()
            print(f"FAIL {name}: {type(error).__name__}: {lines[0][:300] if lines else ''}")
            traceback.print_exc(limit=-4)
        else:
            print(f"ok   {name}: {result} ({time.monotonic() - began:.1f} s)")
        sys.stdout.flush()
    print(f"contact: {len(STEPS) - failed} of {len(STEPS)} steps")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
