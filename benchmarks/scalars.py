"""The scalar functions of generated code: how far they are off, and what an element takes.

`uv run --group bench python benchmarks/scalars.py [--every 1] [--plain] [NAME ...]`

Goes through all floats, or every so many, against NumPy's results in 64 bits; `erf`, `erfc`,
`lgamma` and `digamma`, which NumPy lacks, against ours in 64 bits, which the tests hold against
series. Two operands are drawn, as many. Then the time of an element where all lie in the second
cache, beside NumPy's.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from lib.figures import figure

from aiosearch.codegen.ir import Operation
from aiosearch.codegen.llvm.scalars import ERRORS
from aiosearch.codegen.native.machine import CpuMachine, host, portable
from aiosearch.tensor.types import DType

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from testkit.kernels.scalar_functions import Scalar
from testkit.kernels.ulps import EXACT, drawn, off

CHUNK = 1 << 20
TIMED = 1 << 14
PLACES, EDGE = 1 << 16, 1e-3
"""Of a float to one of a bf16; and how near to the largest float a result counts no more."""
PAIRS = (Operation.MAXIMUM, Operation.MINIMUM, Operation.POW, Operation.REM)
"""What takes two operands."""
ABOVE_ZERO = (Operation.DIGAMMA, Operation.LGAMMA)
"""What has an error in places for operands above zero alone."""
LACKED = (Operation.DIGAMMA, Operation.ERF, Operation.ERFC, Operation.LGAMMA)
"""What NumPy does not have."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--plain", action="store_true", help="for a machine without extensions")
    arguments = parser.parse_args()
    machine = portable(host()) if arguments.plain else host()
    for operation, dtype in ERRORS:
        if dtype is not DType.F64 and (not arguments.names or operation in arguments.names):
            measure(operation, dtype, machine, arguments.every, fused=not arguments.plain)


def measure(
    operation: Operation, dtype: DType, machine: CpuMachine, every: int, *, fused: bool
) -> None:
    """Prints the figures of one function."""
    lanes = machine.width // 4
    function = Scalar(operation, lanes, dtype, fused, machine)
    worst, count, where = 0.0, 0, 0.0
    for operands in chunks(operation, every):
        with np.errstate(all="ignore"):
            wanted = exact(operation)(*(one.astype(np.float64) for one in operands))
        distance = off(function(*operands), wanted)
        if dtype is DType.BF16:
            # Places of a bf16; where one more would be infinite, so it is as a bf16 anyway.
            edge = np.abs(wanted / np.finfo(np.float32).max - 1) < EDGE
            distance = np.where(edge, 0, distance / PLACES)
        count += distance.size
        at = int(distance.argmax())
        if distance[at] > worst:
            worst, where = float(distance[at]), float(operands[0][at])
    stated = ERRORS[operation, dtype].of(fused=fused)
    name = f"{operation} for a bf16" if dtype is DType.BF16 else str(operation)
    more = {"stated": stated, "floats": count, "every": every, "at": where, "fused": fused}
    figure(f"scalars: {name} is off", worst, "ulp", **more)
    timed(name, operation, function)


def exact(operation: Operation) -> Callable[..., Any]:
    """In 64 bits."""
    if operation in LACKED:
        return Scalar(operation, 8, DType.F64)
    return EXACT[operation]


def chunks(operation: Operation, every: int) -> Iterator[tuple[Any, ...]]:
    """All floats, or pairs of as many that are drawn."""
    # The floats below zero are those with the sign bit.
    end = 1 << (31 if operation in ABOVE_ZERO else 32)
    for number, start in enumerate(range(0, end, CHUNK * every)):
        if operation in PAIRS:
            yield tuple(drawn(DType.F32, CHUNK, 2 * number + k) for k in range(2))
        else:
            whole = np.arange(start, min(start + CHUNK * every, end), every, np.int64)
            whole = whole[: whole.size // 16 * 16]
            yield (whole.astype(np.uint32).view(np.float32),)


def timed(name: str, operation: Operation, function: Scalar) -> None:
    """Prints what an element takes, here and in NumPy, in turns."""
    random = np.random.default_rng(0)
    operands = [random.uniform(0.1, 9, TIMED).astype(np.float32) for _ in range(2)]
    operands = operands[: 2 if operation in PAIRS else 1]
    results = np.empty(TIMED, np.float32)
    rivals = [function.prepared(results, *operands)]
    if operation not in LACKED:
        rivals.append(partial(EXACT[operation], *operands, out=results))
    seconds = [[spent(one) for one in rivals] for _ in range(20)]
    ours, *numpys = map(min, zip(*seconds, strict=True))
    beside = round(numpys[0] / TIMED * 1e9, 4) if numpys else None
    figure(f"scalars: {name}", ours / TIMED * 1e9, "ns", lanes=function.lanes, numpy=beside)


def spent(call: Callable[[], Any]) -> float:
    """CPU seconds of one call in a hundred."""
    start = time.process_time()
    for _ in range(100):
        call()
    return (time.process_time() - start) / 100


if __name__ == "__main__":
    main()
