"""Kernels of ours against the best plain JAX: fused programs as machine code.

    python benchmarks/kernels.py --target cpu                  # the whole table
    python benchmarks/kernels.py --quick --only rms_norm       # fewer entrants and rounds
    python benchmarks/kernels.py --rows 1,8 --type bf16
    python benchmarks/kernels.py --asked                       # what something is asked of
    python benchmarks/kernels.py --target cuda

Each row is one race in one process: the program as written under `jax.jit`, every spelling in plain
JAX that is known by hand (`lib/kernels/jax_spellings.py`) or to the optimizer, and all kernels that
`optimize` would try. Weights are constant; what is made of them beforehand is not timed. A heat of
all is followed by a long race of the best that are right on the inputs of the race; then the best
kernel is checked as `optimize` does it, but not with `--quick`. The bar is the best plain JAX, by
each clock and in each way; the kernel that counts is the one that is best in calls on the same
inputs.

On a GPU, Pallas kernels of every built-in program stand against `jax.jit`, and against torch where
that is installed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from lib.kernels.build_cost import Costs, costs
from lib.kernels.entrants import entrants
from lib.kernels.kernel_race import Raced, raced
from lib.kernels.result_table import as_table, tell, tell_all, tell_costs, tell_failed
from lib.kernels.rows import ROWS, TYPES, Row, cpu_rows, gpu_rows
from msgspec.structs import replace

from aiosearch.measure import Ceilings, JaxExecutor, Way, measure_ceilings, stored_ceilings
from aiosearch.optimizer.candidates.generation_process import generation_process
from aiosearch.optimizer.device_kind import platform
from aiosearch.optimizer.effort import BUDGETS, Effort
from aiosearch.optimizer.errors import OptimizeError

FULL = replace(BUDGETS[Effort.DEFAULT], kernels=16, trials=24, trial_seconds=15.0)
QUICK = replace(BUDGETS[Effort.QUICK], search_seconds=2.0, kernels=8, rounds=15)
BESIDE_SECONDS = 2.0
"""For each comparison with torch."""


def main() -> None:
    options = _options()
    if options.target == "cuda":
        # The process that times on a GPU needs the memory that jax would take for this one.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        platform(options.target)
    except OptimizeError as error:
        sys.exit(str(error))
    asyncio.run(compare(options))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--quick", action="store_true", help="fewer entrants and rounds")
    parser.add_argument("--only", action="append", metavar="NAME", help="this program")
    parser.add_argument("--rows", default=list(ROWS), type=_numbers, help="1,8,16")
    parser.add_argument("--type", choices=TYPES)
    parser.add_argument("--asked", action="store_true", help="only rows that something is asked of")
    options = parser.parse_args()
    options.table = [one for one in _table(options.target) if _wanted(one, options)]
    if not options.table:
        parser.error("no row is like that")
    return options


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def _table(target: str) -> Sequence[Row]:
    return list(cpu_rows() if target == "cpu" else gpu_rows())


def _wanted(row: Row, options: argparse.Namespace) -> bool:
    name, dtype, rows = row.key
    named = not options.only or name in options.only
    asked = row.asked is not None or not options.asked
    return named and asked and rows in options.rows and options.type in (None, dtype)


async def compare(options: argparse.Namespace) -> None:
    """Runs the races one by one, telling each."""
    budget = QUICK if options.quick else FULL
    ceilings = await _ceilings(options.target, options.quick)
    races: list[Raced] = []
    made: list[Costs] = []
    failed: list[Row] = []
    async with JaxExecutor(options.target) as executor:
        for row in options.table:
            try:
                async with generation_process(lambda text: None) as process:
                    entered = await entrants(row, budget, options.target, process)
                    races.append(
                        await raced(row, entered, executor, budget, process, not options.quick)
                    )
            except OptimizeError as error:
                failed.append(row)
                tell_failed(row, str(error))
                continue
            except Exception as error:  # a row of the table may fail, and the others go on
                failed.append(row)
                traceback.print_exc()
                tell_failed(row, f"{type(error).__name__}: {error}")
                continue
            tell(races[-1], ceilings, **_more(options.target, races[-1]))
            if options.target == "cpu":
                made += [costs(row, one) for one in entered.forms]
    tell_all(races, ceilings, failed)
    tell_costs(made)
    sys.stderr.write(as_table(races, ceilings) + "\n")


def _more(target: str, one: Raced) -> dict[str, Any]:
    """What this process has to time itself."""
    if target == "cpu":
        return {}
    from lib.kernels.gpu_libraries import beside

    try:
        return beside(one, BESIDE_SECONDS, target)
    except Exception as error:  # of whichever library: no reason to lose the race, or the next ones
        return {"beside_failed": f"{type(error).__name__}: {error}"}


async def _ceilings(target: str, quick: bool) -> Ceilings | None:
    """What `aiosearch doctor --measure` kept; else measured now, unless there is no time."""
    for one in stored_ceilings():
        if one.platform == target:
            return one
    if quick:
        return None
    async with JaxExecutor(target, ways=(Way.HOT,)) as executor:
        return await measure_ceilings(executor)


if __name__ == "__main__":
    main()
