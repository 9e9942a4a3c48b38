"""Measures every point of a kernel's space once, and writes the recorded space.

    python benchmarks/record_space.py softmax matmul --folder benchmarks/recorded

Search algorithms race on the files without a device: `benchmarks/tuning.py --only replay`, and
`aiosearch tune --replay FILE`. Nothing is isolated here, as these kernels neither crash nor hang:
so a point costs little more than its compilation.

A record is of one core, and of processor time: what else runs on the machine takes none of it. It
takes caches, and the other half of a core, though. So every call stands beside one of the
reference, and a point's seconds are those of the reference times the median of the ratios, from
passes over the whole space that are minutes apart. The goal of a replay would else be whichever
point was lucky once. Points that are traced to the same program are one program, and have one time.
What is printed is how far apart the even and the odd passes are: where that is more than the 5 %
that a replay ends at, the file says more of the machine than of the kernel.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, TypeAlias

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

PASSES = 6
CALLS = 30
SECONDS = 0.1
"""In each pass a program is called so often, or for so long, but three times in any case."""


def record(name: str, folder: Path) -> None:
    kernel, types = KERNELS[name]
    call = KernelCall(types())
    space = kernel.search_space(call)
    points = list(space.points())
    arguments = [_array(argument, at) for at, argument in enumerate(types())]
    wanted = np.asarray(kernel.reference(*arguments))
    started = time.monotonic()
    programs: dict[str, Callable[[], Any]] = {}
    texts = [
        _compiled(kernel, kernel.keywords(space, trace), arguments, wanted, programs)
        for trace in points
    ]
    beside = _called(jax.jit(kernel.reference).lower(*arguments).compile(), arguments)
    passes = [_timed(programs, beside, seed) for seed in range(PASSES)]
    base = median(seconds for timed in passes for pairs in timed.values() for _, seconds in pairs)
    seconds = {text: base * _ratio(passes, text) for text in programs}
    measurements = [
        Measurement(trace, seconds[text]) for trace, text in zip(points, texts, strict=True)
    ]
    recorded = RecordedSpace.of(_report(kernel, call, measurements))
    recorded.save(folder / f"{name}.json")
    near = sum((entry.seconds or math.inf) <= 1.05 * recorded.best for entry in measurements)
    apart = sorted(
        abs(math.log(_ratio(passes[0::2], text) / _ratio(passes[1::2], text))) for text in programs
    )
    sys.stdout.write(
        f"{name}: {len(points)} points, {len(programs)} programs, in"
        f" {time.monotonic() - started:.0f} s, best {recorded.best * 1e3:.3f} ms, {near} within 5 %"
        f" of it; two halves of the passes are {100 * math.expm1(apart[len(apart) // 2]):.1f} %"
        f" apart in the median, {100 * math.expm1(apart[len(apart) * 9 // 10]):.1f} % in a tenth\n"
    )
    sys.stdout.flush()


def _compiled(
    kernel: Tunable[..., Any], options: Any, arguments: Any, wanted: Any,
    programs: dict[str, Callable[[], Any]],
) -> str:  # fmt: skip
    """The text of a point's program, which is compiled, checked and added where it is new."""
    lowered = jax.jit(lambda *inputs: kernel.original(*inputs, **options)).lower(*arguments)
    text = lowered.as_text()
    if text not in programs:
        compiled = lowered.compile()
        values = np.asarray(compiled(*arguments))
        if not np.allclose(values, wanted, rtol=1e-3, atol=1e-3 * float(np.abs(wanted).max())):
            raise SystemExit(f"{options} computes another thing")
        programs[text] = _called(compiled, arguments)
    return text


def _called(compiled: Any, arguments: Any) -> Callable[[], Any]:
    return lambda: jax.block_until_ready(compiled(*arguments))


Pairs: TypeAlias = list[tuple[float, float]]
"""Seconds of calls, each with those of the reference right before it."""


def _timed(
    programs: Mapping[str, Callable[[], Any]], reference: Callable[[], Any], seed: int
) -> dict[str, Pairs]:
    """Calls of each program in one pass, in an order of its own."""
    order = list(programs)
    # A stretch in which the machine is loud must not fall on neighbours in the space.
    Random(seed).shuffle(order)
    return {text: _beside(programs[text], reference) for text in order}


def _beside(call: Callable[[], Any], reference: Callable[[], Any]) -> Pairs:
    pairs: Pairs = []
    spent = 0.0
    call()  # the first call after another program finds its caches cold
    while len(pairs) < 3 or (len(pairs) < CALLS and spent < SECONDS):
        base, seconds = _seconds(reference), _seconds(call)
        pairs.append((seconds, base))
        spent += seconds
    return pairs


def _seconds(call: Callable[[], Any]) -> float:
    before = time.process_time()
    call()
    return time.process_time() - before


def _ratio(passes: Sequence[Mapping[str, Pairs]], text: str) -> float:
    """How many times as long as the reference a program takes."""
    return median(seconds / base for timed in passes for seconds, base in timed[text])


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
    # Before jax starts its threads: with one core, processor time is that of the program.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for name in arguments.names:
        record(name, arguments.folder)


if __name__ == "__main__":
    main()
