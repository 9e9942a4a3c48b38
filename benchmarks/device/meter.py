"""What compiles candidates for a GPU, and what runs, checks and times them there.

Kernel times are the GPU's own count (CUPTI): `hot_us` with inputs that may lie in its cache,
`cold_us` with inputs that take turns past it.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Sequence
from typing import Any

ITERATIONS = 20
POISONED_BYTES = 256 << 20
"""Beside the results' own sizes: partial results and what else is between kernels."""


class Compiler:
    """Compiles sources for the device, without tuning anything on it."""

    about = ""

    def __init__(self) -> None:
        import jax

        jax.devices()

    def compile(self, source: str, function: str, types: Any) -> tuple[bytes, float]:
        from aiosearch.measure.worker.executables import build

        began = time.monotonic()
        return build(text(source, function, types), ()).executable, time.monotonic() - began


class Meter:
    """Runs, checks and times on the device, in one process that torch is not loaded into."""

    def __init__(self, dry: bool) -> None:
        import jax

        self._dry = dry
        device = jax.devices()[0]
        self._judge: Any = None
        self._copies: list[list[Any]] = []
        gpu, cache = "H100", 50 << 20
        if not dry:
            from aiosearch.devices import device as described
            from aiosearch.optimizer.device_kind import described_gpu

            gpu = described_gpu() or "H100"
            cache = described(gpu).cache_bytes
        self._cache = 0 if dry else cache
        self.about = {
            "device": device.device_kind,
            "jax": jax.__version__,
            "gpu": gpu,
            "python": platform.python_version(),
        }

    def floor(self) -> dict[str, Any]:
        """What the least kernels take: one that does next to nothing, and one pass over memory."""
        import jax
        import jax.numpy as jnp

        bytes_ = 4096 if self._dry else 4096 * 4096 * 2
        wide = [jnp.ones((bytes_ // 2,), jnp.bfloat16) + at for at in range(1 if self._dry else 4)]
        small = jnp.ones((8, 8), jnp.float32)
        nothing, copy = jax.jit(lambda x: x + 1.0), jax.jit(lambda x: -x)
        reduce_ = jax.jit(lambda x: jnp.max(x.reshape(64, -1), axis=-1))
        measured: dict[str, Any] = {"bytes": bytes_}
        for name, function, copies in (
            ("nothing", nothing, [[small]]),
            ("copy", copy, [[array] for array in wide]),
            ("reduce", reduce_, [[array] for array in wide]),
        ):
            measured[name] = self._timed(function, copies)
        return measured

    def case(self, program: bytes) -> None:
        """Draws the inputs of a program, more of them than the cache holds."""
        import jax
        import jax.numpy as jnp
        import numpy as np
        from lib.optimizer.agreement import Judge
        from lib.optimizer.builtin_cases import written

        from aiosearch.optimizer.array_types import array_types
        from aiosearch.tensor.files import from_json

        subject = from_json(program)
        arrays = Judge.drawn(subject, {}, 0)
        types = array_types(subject)
        first = [
            jnp.asarray(array, array_type.dtype)
            for array, array_type in zip(arrays, types, strict=True)
        ]
        size = sum(array.nbytes for array in first)
        count = 1 if not self._cache else min(64, 2 + 2 * self._cache // size)
        self._copies = [first, *([array + 0 for array in first] for _ in range(count - 1))]
        jax.block_until_ready(self._copies)
        outputs = [
            np.asarray(array) for array in jax.tree.leaves(jax.jit(written(subject))(*first))
        ]
        self._judge = Judge(subject, arrays, outputs)

    def plain(self, source: str, function: str, types: Any) -> dict[str, Any]:
        """Plain JAX, compiled here: nothing else runs on the device while XLA tunes it."""
        from aiosearch.measure.worker.executables import compiled

        began = time.monotonic()
        call = compiled(text(source, function, types))
        return {"compiled_s": round(time.monotonic() - began, 2), **self._tried(call)}

    def point(self, source: str, function: str, types: Any, executable: bytes) -> dict[str, Any]:
        from aiosearch.measure.worker.executables import loaded

        return self._tried(loaded(text(source, function, types), executable))

    def _tried(self, call: Any) -> dict[str, Any]:
        """Runs it twice, the second time into memory that was filled with NaN."""
        import jax
        import numpy as np

        results = jax.tree.leaves(call(*self._copies[0]))
        outputs = [np.asarray(output) for output in results]
        objection = self._judge.objection(outputs)
        if objection:
            return {"right": False, "why": objection}
        shapes = [(output.shape, output.dtype) for output in results]
        del results
        self._poison(shapes)
        again = [np.asarray(output) for output in jax.tree.leaves(call(*self._copies[0]))]
        objection = self._judge.objection(again)
        if objection:
            return {"right": False, "why": f"into poisoned memory: {objection}"}
        same = all(
            np.array_equal(before, after) for before, after in zip(outputs, again, strict=True)
        )
        return {"right": True, "repeats": same, **self._timed(call, self._copies)}

    def _poison(self, shapes: Sequence[tuple[Any, Any]]) -> None:
        """Fills memory with NaN and frees it, for the allocator to give it to the next results.

        What a kernel does not write is NaN then, and not what an earlier kernel left there.
        """
        import jax
        import jax.numpy as jnp

        floats = [(shape, dtype) for shape, dtype in shapes if jnp.issubdtype(dtype, jnp.floating)]
        wide = () if self._dry else ((POISONED_BYTES // 4,),)
        filled = [jnp.full(shape, jnp.nan, dtype) for shape, dtype in floats * 4]
        filled += [jnp.full(shape, jnp.nan, jnp.float32) for shape in wide]
        jax.block_until_ready(filled)
        del filled

    def _timed(self, call: Any, copies: Sequence[Sequence[Any]]) -> dict[str, Any]:
        import jax

        jax.block_until_ready([call(*copies[0]) for _ in range(2 if self._dry else 60)])
        turns = [copies[at % len(copies)] for at in range(ITERATIONS)]
        runs = self._counted(call, [*[copies[0]] * ITERATIONS, *turns])
        hot, cold = runs[:ITERATIONS], runs[-ITERATIONS:]
        began = time.perf_counter()
        jax.block_until_ready(call(*copies[0]))
        waited = time.perf_counter() - began
        names = [name for name, _ in hot[0]]
        times_of = [[run[at][1] for run in hot] for at in range(len(names))]
        return {
            "hot_us": _median(hot),
            "cold_us": _median(cold) if len(copies) > 1 else None,
            "waited_us": round(waited * 1e6, 1),
            "kernels": [
                [name[:40], round(statistics.median(times) * 1e3, 2)]
                for name, times in zip(names, times_of, strict=True)
            ],
        }

    def _counted(self, call: Any, inputs: Sequence[Sequence[Any]]) -> list[list[tuple[str, float]]]:
        """By call the kernels and their milliseconds, as the GPU counts them."""
        import jax

        if self._dry:
            runs = []
            for copy in inputs[:2]:
                began = time.perf_counter()
                jax.block_until_ready(call(*copy))
                runs.append([("interpreted", (time.perf_counter() - began) * 1e3)])
            return runs
        from jax.experimental.mosaic.gpu import profiler

        extension = profiler.mosaic_gpu_lib._mosaic_gpu_ext  # `measure` takes no inputs in turns
        extension._cupti_init()
        try:
            jax.block_until_ready([call(*arguments) for arguments in inputs])
        finally:
            timings = extension._cupti_get_timings(True)
        if not timings or len(timings) % len(inputs):
            raise RuntimeError(
                f"the GPU counted {len(timings or ())} kernels in {len(inputs)} calls"
            )
        per_call = len(timings) // len(inputs)
        return [list(timings[at * per_call : (at + 1) * per_call]) for at in range(len(inputs))]


def _median(runs: Sequence[Sequence[tuple[str, float]]]) -> float:
    return round(statistics.median(sum(ms for _, ms in run) for run in runs) * 1e3, 2)


def text(source: str, function: str, types: Any) -> Any:
    from aiosearch.measure.candidates import ArrayType
    from aiosearch.measure.protocol import Text

    inputs = tuple(ArrayType(dtype, tuple(shape)) for dtype, shape in types)
    return Text(source, function, inputs, False, None, "standard")
