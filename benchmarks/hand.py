"""Machine code of ours against kernels that were written by hand in C.

    python benchmarks/hand.py                           # the whole table
    python benchmarks/hand.py --only gqa --type bf16    # some rows of it
    python benchmarks/hand.py --rows 1,8 --seconds 20
    python benchmarks/hand.py --lying                   # nothing is laid out beforehand

Both run in this process, on the same inputs, with as many threads, and with weights that were laid
out beforehand: the hand kernel on threads of its own, our machine code on threads like these, and
ours once more as users call it, through XLA, which takes some time to begin on all threads. In
further rows weights are like any input, which may change from call to call: both read them as they
lie, row by row. In heats the fastest code is found of the kernels that `optimize` would try; then
it is timed in turns with the hand kernel, which runs twice a round, on weights in two places where
they are laid out: that is the noise. All are checked against what float64 gives. Needs a C compiler
and AVX-512 with bf16.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lib.figures import figure, versions
from lib.kernels.c_kernel_race import BUDGET, Clocks, Paired, paired
from lib.kernels.c_kernels import BUILT, Workshop, compiler, lacking
from lib.kernels.result_table import operations, traffic
from lib.kernels.rows import ROWS, TYPES, Row, cpu_rows, lying_rows
from lib.optimizer.paired_timing import Compared

from aiosearch.display.tables import table
from aiosearch.measure.race import Clock
from aiosearch.optimizer.effort import Budget
from aiosearch.pool import usable_cores

TARGET = 0.9
"""Of the speed of the hand kernel."""
HEAD = (
    *("program", "hand us", "ours us", "speed", "low", "high", "noise", "of CPU", "noise"),
    *("hand GB/s", "ours GB/s", "hand GF/s", "ours GF/s", "called us", "speed", "of CPU"),
)


def main() -> None:
    options = _options()
    if reason := lacking():
        sys.stderr.write(f"there is nothing to compare with: {reason}\n")
        return
    compare(options.table, options.seconds)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", choices=list(BUILT), help="this program")
    parser.add_argument("--rows", default=list(ROWS), type=_numbers, help="1,8,16")
    parser.add_argument("--type", choices=TYPES)
    parser.add_argument("--lying", action="store_true", help="only weights as they lie")
    parser.add_argument("--seconds", type=float, default=8.0, help="for each comparison")
    options = parser.parse_args()
    rows = lying_rows() if options.lying else [*cpu_rows(), *lying_rows()]
    options.table = [one for one in rows if _wanted(one, options)]
    if not options.table:
        parser.error("no row is like that")
    return options


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def _wanted(row: Row, options: argparse.Namespace) -> bool:
    name, dtype, rows = row.key
    named = name in (options.only or BUILT)
    return named and rows in options.rows and options.type in (None, dtype)


def compare(rows: Sequence[Row], seconds: float, budget: Budget = BUDGET) -> None:
    """Runs the comparisons one by one, telling each."""
    pairs: list[Paired] = []
    with tempfile.TemporaryDirectory() as folder:
        shop = Workshop(Path(folder), usable_cores())
        for row in rows:
            found = paired(row, shop, seconds, budget)
            tell(found)
            pairs.append(found)
    tell_all(pairs)
    sys.stderr.write(as_table(pairs) + "\n")


def tell(one: Paired) -> None:
    """Prints the figure of one row."""
    wall, cpu = one.clocks[Clock.WALL], one.clocks[Clock.CPU]
    figure(
        f"hand: {one.row.name}, the code",
        wall.ratio.median,
        "of the hand kernel's speed",
        target=TARGET,
        **wall.facts(),
        cpu=_told(cpu),
        called={"wall": _told(one.called[Clock.WALL]), "cpu": _told(one.called[Clock.CPU])},
        hand=_reached(one.row, wall.base),
        ours=_reached(one.row, wall.other),
        how=one.how,
        entered=one.entered,
        out=list(one.out),
        compared=_compared(),
    )


def _told(one: Compared) -> dict[str, float]:
    return {"value": round(one.ratio.median, 4), **one.facts()}


def _compared() -> dict[str, str]:
    return {**versions("jax", "jaxlib", "llvmlite"), "cc": compiler()}


def _reached(row: Row, seconds: float) -> dict[str, float]:
    """What is got through in a second."""
    return {
        "gigabytes_per_second": round(traffic(row) / seconds / 1e9, 2),
        "gigaflops": round(operations(row) / seconds / 1e9, 2),
    }


def tell_all(pairs: Sequence[Paired]) -> None:
    """Prints in how many rows ours are as fast as they are to be: the code, and calls of it."""
    _tell_below("hand: the code as fast as asked", pairs, lambda one: one.clocks)
    _tell_below("hand: as fast as asked through XLA", pairs, lambda one: one.called)


def _tell_below(name: str, pairs: Sequence[Paired], clocks: Callable[[Paired], Clocks]) -> None:
    speeds = {one.row.name: clocks(one)[Clock.WALL].ratio.median for one in pairs}
    below = [row for row, speed in speeds.items() if speed < TARGET]
    reached, every = len(speeds) - len(below), len(speeds)
    figure(name, reached, "rows", target=every, below=below, compared=_compared())


def as_table(pairs: Sequence[Paired]) -> str:
    """A row for each."""
    rows = [HEAD, *map(_cells, pairs)]
    return table(rows, right=frozenset(range(1, len(HEAD))))


def _cells(one: Paired) -> tuple[str, ...]:
    wall, cpu = one.clocks[Clock.WALL], one.clocks[Clock.CPU]
    rates: list[Any] = [_reached(one.row, each) for each in (wall.base, wall.other)]
    return (
        one.row.name,
        *(f"{each * 1e6:,.0f}" for each in (wall.base, wall.other)),
        *(f"{each:.2f}" for each in (wall.ratio.median, wall.ratio.low, wall.ratio.high)),
        f"{wall.noise:.1%}",
        f"{cpu.ratio.median:.2f}",
        f"{cpu.noise:.1%}",
        *(f"{each['gigabytes_per_second']:.1f}" for each in rates),
        *(f"{each['gigaflops']:.0f}" for each in rates),
        f"{one.called[Clock.WALL].other * 1e6:,.0f}",
        *(f"{one.called[clock].ratio.median:.2f}" for clock in (Clock.WALL, Clock.CPU)),
    )


if __name__ == "__main__":
    main()
