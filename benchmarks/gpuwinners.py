"""What `optimize` would try first on a GPU, where there is none: is it right, is it machine code?

    python benchmarks/gpuwinners.py                    # every built-in program, 1, 8 and 16 rows
    python benchmarks/gpuwinners.py --only gqa --rows 1,8 --each 3 --device A100

Of each program the kernels that should be fastest run in Pallas' interpret mode, at the shapes
that they are for, and their results are held against float64. With the extra `cuda-aot` they are
compiled to a cubin as well, in a process that is killed where it takes too long. No time here is
a GPU's.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import lib.optimizer.builtin_cases as layers
from lib.figures import figure, versions
from lib.kernels.rows import ROWS, Row, gpu_rows
from lib.optimizer.agreement import Judge
from msgspec import Struct
from msgspec.structs import replace

from aiosearch.codegen.pallas.cubin import (
    Argument,
    CannotCompile,
    Cubin,
    compile_cubin,
    missing_compiler,
)
from aiosearch.devices import Device, device, device_names
from aiosearch.optimizer.array_types import array_types
from aiosearch.optimizer.candidates.generation import (
    CandidateQuestion,
    CandidateSource,
    generate_candidates,
)
from aiosearch.optimizer.candidates.gpu_kernels import describe_missing_kernels
from aiosearch.optimizer.effort import BUDGETS, Effort
from aiosearch.tensor.files import to_json

BUDGET = replace(BUDGETS[Effort.QUICK], search_seconds=2.0, kernels=8)
SEED = 0


class Winner(Struct, frozen=True):
    """One that ran without a GPU."""

    how: str
    objection: str
    """What is wrong with its results."""
    seconds: float
    """In interpret mode, compiling included."""
    cubin: Cubin | None
    refused: str = ""
    """Why it is no machine code."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="this program")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)), help="1,8,16")
    parser.add_argument("--each", type=int, default=1, help="so many of each program")
    parser.add_argument("--device", default="H200", choices=device_names())
    options = parser.parse_args()
    gpu, wanted = device(options.device), [int(one) for one in options.rows.split(",")]
    found: list[Winner] = []
    for row in gpu_rows():
        if row.key[2] in wanted and (not options.only or row.key[0] in options.only):
            found += winners(row, gpu, options.each)
    tell_all(found)


def winners(row: Row, gpu: Device, most: int) -> list[Winner]:
    """Runs and compiles them one by one, telling each."""
    question = CandidateQuestion(to_json(row.program), BUDGET, SEED, False, gpu=gpu.name)
    told: list[str] = []
    some = [one for one in generate_candidates(question, told.append).contenders if one.kernels][
        :most
    ]
    if not some:
        return [_missed(row, told)]
    arrays = Judge.drawn(row.program, {}, SEED)
    given = [jnp.asarray(one) for one in arrays]
    written = layers.written(row.program)
    judge = Judge(row.program, arrays, jax.tree.leaves(jax.jit(written)(*given)))
    found = [ran(row, one, given, judge, gpu) for one in some]
    for one in found:
        tell(row, one)
    return found


def _missed(row: Row, told: Sequence[str]) -> Winner:
    """A program without kernels is one that is not right; what was told says why."""
    reasons = [text for text in told if text.startswith(describe_missing_kernels(""))]
    one = Winner("no kernels", "; ".join(reasons) or "no kernels are left", 0.0, None)
    tell(row, one)
    return one


def ran(row: Row, one: CandidateSource, given: Sequence[Any], judge: Judge, gpu: Device) -> Winner:
    """In interpret mode, and through the compiler."""
    started = time.perf_counter()
    try:
        objection = judge.objection(_interpreted(one, given))
    except Exception as error:  # whatever a kernel does: the others are told of all the same
        objection = f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started
    return Winner(one.how, objection, seconds, *_compiled(row, one, gpu))


def _interpreted(one: CandidateSource, given: Sequence[Any]) -> list[Any]:
    module: dict[str, Any] = {}
    exec(one.source, module)
    function = jax.jit(lambda *arrays: module[one.function](*arrays, interpret=True))
    return jax.tree.leaves(jax.block_until_ready(function(*given)))  # type: ignore[no-untyped-call]


def _compiled(row: Row, one: CandidateSource, gpu: Device) -> tuple[Cubin | None, str]:
    if missing_compiler() is not None:
        return None, ""
    types = zip(row.program.inputs, array_types(row.program), strict=True)
    arguments = [Argument(term.dtype, one.shape) for term, one in types]
    try:
        return asyncio.run(compile_cubin(one.source, one.function, arguments, gpu)), ""
    except CannotCompile as error:
        return None, str(error)


def tell(row: Row, one: Winner) -> None:
    """Prints how many kernels it has, and what became of them."""
    kernels = () if one.cubin is None else one.cubin.kernels
    figure(
        f"first on a GPU: {row.name}",
        int(not one.objection),
        "right in interpret mode",
        target=1,
        how=one.how,
        objection=one.objection,
        interpreting_seconds=round(one.seconds, 2),
        refused=one.refused,
        kernels=[
            {
                "name": each.name,
                "registers": each.registers,
                "spilled_bytes": each.spilled_bytes,
                "shared_bytes": each.shared_bytes,
                "blocks": each.blocks,
            }
            for each in kernels
        ],
    )


def tell_all(found: Sequence[Winner]) -> None:
    """Prints how many are right, and how many the compiler took; programs without any count."""
    right, compared = sum(not one.objection for one in found), versions("jax", "jaxlib")
    told = "first on a GPU: right in interpret mode"
    figure(told, right, "winners", target=len(found), compared=compared)
    if missing_compiler() is not None:
        sys.stderr.write(f"none was compiled: {missing_compiler()}\n")
        return
    machine = [one.cubin for one in found if one.cubin is not None]
    spilled = [each.spilled_bytes for one in machine for each in one.kernels]
    figure(
        "first on a GPU: compiled to a cubin",
        len(machine),
        "winners",
        target=len(found),
        spilled_bytes="not known" if None in spilled else sum(one or 0 for one in spilled),
        compared=compared,
    )


if __name__ == "__main__":
    main()
