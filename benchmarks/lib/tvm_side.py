"""TVM's MetaSchedule on one workload of the tuner's benchmark, in a process of its own.

    python benchmarks/lib/tvm_side.py NAME SHAPES SECONDS CORES FOLDER

runs under an interpreter that has TVM, which need not have jax. It tunes for so many seconds,
prints what it did as a line of JSON, runs the winner on `inputs.npz` in the folder, writes
`output.npy` there, and then gives the seconds of a call for each line that asks for a number of
calls.

Settings are the peer's own but for these, each in its favour. The default way to build imports all
tensor intrinsics in each worker, which takes longer than the time that a build may take on two
cores; nothing here needs them. Batches are small where the budget is, as one of 64 takes minutes,
and the model, which by default guesses at random below 100 measurements, learns from the first
batch. A measurement runs a candidate for 40 ms rather than 100. A batch that was begun when the
time ends is finished, up to a quarter over it. The fastest five of the search are timed again at
the end, outside of the time.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

Tensors = list[Any]
LAST = 5
"""As many of the fastest are timed again."""
OVER = 1.25
"""Of the time, for a batch that was begun."""


def matmul(a: Any, b: Any) -> Any:
    from tvm import te

    k = te.reduce_axis((0, a.shape[-1]), name="k")

    def product(*at: Any) -> Any:
        return te.sum(a(*at[:-1], k) * b(*at[:-2], k, at[-1]), axis=[k])

    return te.compute((*a.shape[:-1], b.shape[-1]), product, name="matmul")


def dense_bias_gelu(x: Any, w: Any, b: Any) -> Any:
    from tvm import te, tirx

    product = matmul(x, w)
    summed = te.compute(product.shape, lambda i, j: product[i, j] + b[j], name="biased")
    scale = math.sqrt(2 / math.pi)

    def gelu(i: Any, j: Any) -> Any:
        v = summed[i, j]
        half = tirx.const(0.5, "float32")
        inner = tirx.const(scale, "float32") * (v + tirx.const(0.044715, "float32") * v * v * v)
        return half * v * (tirx.const(1, "float32") + te.tanh(inner))

    return te.compute(product.shape, gelu, name="gelu")


def softmax(x: Any) -> Any:
    from tvm import te

    rows, columns = x.shape
    j, k = te.reduce_axis((0, columns), name="j"), te.reduce_axis((0, columns), name="k")
    most = te.compute((rows,), lambda i: te.max(x[i, j], axis=[j]), name="most")
    raised = te.compute(x.shape, lambda i, j: te.exp(x[i, j] - most[i]), name="raised")
    total = te.compute((rows,), lambda i: te.sum(raised[i, k], axis=[k]), name="total")
    return te.compute(x.shape, lambda i, j: raised[i, j] / total[i], name="softmax")


def rms_matmul(x: Any, g: Any, w: Any) -> Any:
    from tvm import te, tirx

    rows, columns = x.shape
    k = te.reduce_axis((0, columns), name="r")
    total = te.compute((rows,), lambda i: te.sum(x[i, k] * x[i, k], axis=[k]), name="total")
    share, least = tirx.const(1 / int(columns), "float32"), tirx.const(1e-6, "float32")
    scale = te.compute((rows,), lambda i: te.rsqrt(total[i] * share + least), name="scale")
    normed = te.compute(x.shape, lambda i, j: x[i, j] * scale[i] * g[j], name="normed")
    return matmul(normed, w)


def convolution(
    stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
) -> Callable[[Any, Any], Any]:
    """Of any number of axes between the batch and the channels."""

    def convolved(x: Any, w: Any) -> Any:
        from tvm import te, topi

        kernel, per_group, out = list(w.shape[:-2]), w.shape[-2], w.shape[-1]
        if padding:
            x = topi.nn.pad(x, [0, *[padding] * len(kernel), 0])
        channel = te.reduce_axis((0, per_group), name="rc")
        taps = [te.reduce_axis((0, size), name=f"r{at}") for at, size in enumerate(kernel)]
        sizes = [
            (int(extent) - dilation * (int(size) - 1) - 1) // stride + 1
            for extent, size in zip(x.shape[1:-1], kernel, strict=True)
        ]
        share = int(out) // groups

        def summed(*at: Any) -> Any:
            n, *places, o = at
            read = [
                place * stride + tap * dilation for place, tap in zip(places, taps, strict=True)
            ]
            source = channel if groups == 1 else o // share * int(per_group) + channel
            return te.sum(x(n, *read, source) * w(*taps, channel, o), axis=[*taps, channel])

        return te.compute((x.shape[0], *sizes, out), summed, name="convolved")

    return convolved


def transposed_convolution(x: Any, w: Any) -> Any:
    """Of a stride of two, padded by two once it is dilated; the kernel is not turned."""
    from tvm import te, tirx, topi

    height, width, channels, out = w.shape
    padded = topi.nn.pad(x, [0, 1, 1, 0])
    rc = te.reduce_axis((0, channels), name="rc")
    rh, rw = te.reduce_axis((0, height), name="rh"), te.reduce_axis((0, width), name="rw")
    sizes = [
        2 * int(extent) - 1 + 4 - int(size) + 1
        for extent, size in zip(x.shape[1:3], (height, width), strict=True)
    ]

    def summed(n: Any, h: Any, v: Any, o: Any) -> Any:
        row, column = h + rh, v + rw
        there = te.all((row % 2).equal(0), (column % 2).equal(0))
        zero = tirx.const(0.0, "float32")
        value = te.if_then_else(there, padded[n, row // 2, column // 2, rc], zero)
        return te.sum(value * w[rh, rw, rc, o], axis=[rh, rw, rc])

    return te.compute((x.shape[0], *sizes, out), summed, name="convolved")


def convolution_norm_relu(x: Any, w: Any, s: Any, b: Any) -> Any:
    from tvm import te, tirx

    y = convolution(2, 3)(x, w)
    zero = tirx.const(0.0, "float32")
    return te.compute(
        y.shape, lambda n, i, j, o: te.max(y[n, i, j, o] * s[o] + b[o], zero), name="relu"
    )


def transposed_batched_product(q: Any, k: Any) -> Any:
    from tvm import te

    batch, rows, heads, width = q.shape
    d = te.reduce_axis((0, width), name="d")
    return te.compute(
        (batch, heads, rows, k.shape[1]),
        lambda b, h, i, j: te.sum(q[b, i, h, d] * k[b, j, h, d], axis=[d]),
        name="scores",
    )


def norm(x: Any) -> Any:
    from tvm import te

    i, j = te.reduce_axis((0, x.shape[1]), name="i"), te.reduce_axis((0, x.shape[2]), name="j")
    total = te.compute(
        (x.shape[0],), lambda b: te.sum(x[b, i, j] * x[b, i, j], axis=[i, j]), name="total"
    )
    return te.compute(total.shape, lambda b: te.sqrt(total[b]), name="norm")


WORKLOADS: dict[str, Callable[..., Any]] = {
    "matmul 512": matmul,
    "matmul 1024": matmul,
    "conv2d": convolution(1, 1),
    "batched matmul": matmul,
    "dense bias gelu": dense_bias_gelu,
    "softmax": softmax,
    "rms_norm matmul": rms_matmul,
    "C1D": convolution(2, 1),
    "C2D": convolution(2, 3),
    "C3D": convolution(2, 3),
    "DEP": convolution(1, 1, groups=32),
    "DIL": convolution(2, 3, 2),
    "GMM": matmul,
    "GRP": convolution(2, 1, groups=4),
    "T2D": transposed_convolution,
    "CBR": convolution_norm_relu,
    "TBG": transposed_batched_product,
    "NRM": norm,
    "SFM": softmax,
}
"""By the names of `lib/tuned_workloads.py`, in TVM's tensor expressions."""


def built(module: Any, target: Any, _parameters: Any) -> Any:
    """What the default way to build does, without the tensor intrinsics."""
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    return tvm.tirx.build(
        RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module), target=target
    )


def tuned(
    name: str, shapes: list[list[int]], seconds: float, cores: int
) -> tuple[dict[str, Any], Any]:
    """What the search did, and the function that it likes best."""
    import tvm
    import xgboost
    from tvm import te
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.meta_schedule.builder.local_builder import LocalBuilder
    from tvm.s_tir.meta_schedule.runner.local_runner import LocalRunner, LocalRunnerFuture
    from tvm.s_tir.schedule import Schedule
    from tvm.target import Target, codegen

    inputs = [te.placeholder(shape, name=f"x{at}") for at, shape in enumerate(shapes)]
    function = te.create_prim_func([*inputs, WORKLOADS[name](*inputs)])
    target = Target({"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu(), "num-cores": cores})
    batch = 16 if seconds <= 90 else 32 if seconds <= 300 else 64
    ends = math.inf
    trials = 0

    @tvm.ir.utils.derived_object
    class TimedRunner(LocalRunner._cls):  # type: ignore[misc]  # TVM's own way to inherit
        """Runs nothing once the time, and what a batch may take beyond it, is over."""

        def run(self, runner_inputs: list[Any]) -> list[Any]:
            return [future for runner_input in runner_inputs for future in self._run(runner_input)]

        def _run(self, runner_input: Any) -> list[Any]:
            nonlocal trials
            if time.monotonic() > began + OVER * seconds:
                return [LocalRunnerFuture(res=None, error_message="the time is over")]
            trials += 1
            futures: list[Any] = super().run([runner_input])
            return futures

    @tvm.ir.utils.derived_object
    class Ending(ms.measure_callback.PyMeasureCallback):  # type: ignore[misc]  # untyped
        """Ends the task at the first batch that is done after the time."""

        def apply(self, task_scheduler: Any, task_id: int, *rest: Any) -> None:
            if time.monotonic() > ends:
                task_scheduler.terminate_task(task_id)

    builder = LocalBuilder(max_workers=cores, f_build=built)
    evaluator = ms.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=40)
    runner = TimedRunner(timeout_sec=10, evaluator_config=evaluator)
    callbacks = [*ms.measure_callback.MeasureCallback.create("default"), Ending()]
    began = time.monotonic()
    ends = began + seconds
    with tempfile.TemporaryDirectory() as scratch:
        database = ms.tune_tir(
            function,
            target,
            scratch,
            max_trials_global=1_000_000,
            num_trials_per_iter=batch,
            builder=builder,
            runner=runner,
            database="memory",
            cost_model=ms.cost_model.XGBModel(num_warmup_samples=batch, num_tuning_cores=cores),
            measure_callbacks=callbacks,
            strategy=ms.search_strategy.EvolutionarySearch(population_size=8 * batch),
            num_tuning_cores=cores,
            seed=1,
        )
    spent = time.monotonic() - began
    records = [record for record in database.get_all_tuning_records() if _least(record) < 1e9]
    functions = []
    for record in sorted(records, key=_least)[:LAST]:
        schedule = Schedule(record.workload.mod)
        record.trace.apply_to_schedule(schedule, remove_postproc=False)
        functions.append(built(schedule.mod, target, None)["main"])
    report = {
        "seconds": spent,
        "trials": trials,
        "valid": len(records),
        "best": min(map(_least, records), default=None),
        "versions": f"tvm {tvm.__version__}, xgboost {xgboost.__version__}",
    }
    return report, functions


def _least(record: Any) -> float:
    return min((float(value) for value in record.run_secs or ()), default=math.inf)


def _timed(function: Any, arrays: Tensors, calls: int) -> float:
    begun = time.perf_counter()
    for _ in range(calls):
        function(*arrays)
    return (time.perf_counter() - begun) / calls


def _tensors(folder: Path) -> Iterator[Any]:
    import tvm

    with np.load(folder / "inputs.npz") as stored:
        for name in sorted(stored.files, key=lambda name: int(name.removeprefix("arr_"))):
            yield tvm.runtime.tensor(stored[name])


def serve(name: str, shapes: str, seconds: str, cores: str, folder: Path, answers: TextIO) -> None:
    """Tunes, then times the winner as often as it is asked to."""
    import tvm

    report, functions = tuned(name, json.loads(shapes), float(seconds), int(cores))
    if not functions:
        answers.write(json.dumps(report) + "\n")
        return
    sizes = np.load(folder / "shape.npy").tolist()
    output = tvm.runtime.tensor(np.full(sizes, np.nan, np.float32))
    arrays = [*_tensors(folder), output]
    times = []
    for function in functions:
        rough = min(_timed(function, arrays, 1) for _ in range(3))
        calls = max(1, min(200, math.ceil(0.02 / rough)))
        times.append(min(_timed(function, arrays, calls) for _ in range(5)))
    winner = functions[times.index(min(times))]
    winner(*arrays)
    np.save(folder / "output.npy", output.numpy())
    answers.write(json.dumps(report) + "\n")
    answers.flush()
    for line in sys.stdin:
        calls = int(line)
        _timed(winner, arrays, min(3, calls))  # what ran before leaves its traces in the caches
        answers.write(json.dumps(_timed(winner, arrays, calls)) + "\n")
        answers.flush()


def main() -> None:
    # The library logs as it likes; answers have a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.disable(logging.WARNING)
    name, shapes, seconds, cores, folder = sys.argv[1:]
    serve(name, shapes, seconds, cores, Path(folder), answers)


if __name__ == "__main__":
    main()
