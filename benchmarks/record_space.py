"""Measures every point of a kernel's space once, and writes the recorded space.

    python benchmarks/record_space.py softmax matmul --folder benchmarks/recorded

Search algorithms race on the files without a device: `benchmarks/tuning.py --only replay`, and
`aiosearch tune --replay FILE`. Nothing is isolated here, as these kernels neither crash nor hang:
so a point costs little more than its compilation. Its seconds are the least of many calls on one
core, since the goal of a replay would else be whichever point was lucky once.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import jax
import numpy as np
from lib.tuned_kernels import KERNELS

from aiosearch.measure import ArrayType
from aiosearch.measure.random_inputs import draw
from aiosearch.tuner import Measurement, Tunable, TuningReport
from aiosearch.tuner.kernels import KernelCall, type_of
from aiosearch.tuner.records import TuningRecord
from aiosearch.tuner.search.recordings import RecordedSpace
from aiosearch.tuner.tunables import device_name

CALLS = 200
SECONDS = 0.3
"""A point is called so often, or for so long, but four times in any case."""


def record(name: str, folder: Path) -> None:
    kernel, types = KERNELS[name]
    call = KernelCall(types())
    space = kernel.search_space(call)
    points = list(space.points())
    # A stretch in which the machine is loud must not fall on neighbours in the space.
    Random(0).shuffle(points)
    arguments = [_array(argument, at) for at, argument in enumerate(types())]
    wanted = np.asarray(kernel.reference(*arguments))
    started = time.monotonic()
    measurements = []
    for trace in points:
        options = kernel.keywords(space, trace)
        measurements.append(_measured(kernel, options, arguments, wanted, trace))
    order = {trace.key: at for at, trace in enumerate(space.points())}
    measurements.sort(key=lambda entry: order[entry.trace.key])
    recorded = RecordedSpace.of(_report(kernel, call, measurements))
    recorded.save(folder / f"{name}.json")
    near = sum(entry.seconds <= 1.05 * recorded.best for entry in measurements)
    sys.stdout.write(
        f"{name}: {len(points)} points in {time.monotonic() - started:.0f} s, best"
        f" {recorded.best * 1e3:.3f} ms, {near} within 5 % of it\n"
    )
    sys.stdout.flush()


def _measured(
    kernel: Tunable[..., Any], options: Any, arguments: Any, wanted: Any, trace: Any
) -> Measurement:
    function = jax.jit(lambda *inputs: kernel.original(*inputs, **options))
    compiled = function.lower(*arguments).compile()
    values = np.asarray(compiled(*arguments))
    if not np.allclose(values, wanted, rtol=1e-3, atol=1e-3 * float(np.abs(wanted).max())):
        raise SystemExit(f"{trace.decisions} computes another thing")
    return Measurement(trace, _least(lambda: jax.block_until_ready(compiled(*arguments))))


def _least(call: Callable[[], Any]) -> float:
    least, end = math.inf, time.perf_counter() + SECONDS
    for at in range(CALLS):
        before = time.perf_counter()
        call()
        after = time.perf_counter()
        least = min(least, after - before)
        if after > end and at >= 3:
            break
    return least


def _array(argument: Any, at: int) -> Any:
    if isinstance(argument, np.ndarray):
        return argument
    type_ = type_of(argument)
    return draw(ArrayType(type_.dtype, type_.shape), 0, at)


def _report(
    kernel: Tunable[..., Any], call: KernelCall, measurements: list[Measurement]
) -> TuningReport:
    fastest = min(measurements, key=lambda entry: entry.seconds or math.inf)
    decisions = fastest.trace.decisions
    return TuningReport(
        TuningRecord(
            kernel=kernel.name,
            arguments=call.text,
            device=device_name(),
            configuration=decisions,
            decisions=decisions,
            versions=f"jax {jax.__version__}",
        ),
        tuple(measurements),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(KERNELS))
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "recorded")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        record(name, arguments.folder)


if __name__ == "__main__":
    main()
