"""What races of kernels came to: a figure for each row, figures for all, and a table for people."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from lib.figures import figure, versions
from lib.kernels.build_cost import KERNELS, LIMIT, Costs
from lib.kernels.kernel_race import Raced
from lib.kernels.rows import Row

from aiosearch.codegen.cpu.coded_format import CODED_SIZE_RATIO
from aiosearch.display.tables import table
from aiosearch.measure import Ceilings, Ratio, Way
from aiosearch.measure.race import Clock
from aiosearch.tensor import DType, Term
from aiosearch.tensor.analysis.cost import cost
from aiosearch.tensor.terms import bytes_of

OVER_JAX, OVER_NAIVE = "times as fast as the best plain JAX", "times as fast as jax.jit"
HEAD = (
    *("program", "naive us", "JAX us", "kernel us", "over JAX", "low", "high", "noise"),
    *("of CPU", "cold", "over naive", "ceiling", "by hand", "asked"),
)
CLOCKS = (Clock.WALL, Clock.CPU)
STRETCH = 0.8
"""The share of the ceiling that is hoped for."""


def tell(one: Raced, ceilings: Ceilings | None, **more: Any) -> None:
    """Prints the figure of one row, and what else is known of it."""
    way = one.race.deciding
    ratio, asked = one.headline, one.row.asked
    figure(
        f"kernels: {one.row.name}",
        None if ratio is None else ratio.median,
        _unit(one.row),
        **({} if asked is None else {"target": asked}),
        **({} if ratio is None else {"low": round(ratio.low, 4), "high": round(ratio.high, 4)}),
        noise=_rounded(one.race.noise(way=way)),
        **({"by_hand": one.row.by_hand} if one.row.by_hand else {}),
        ways={each: _way(one, each) for each in one.race.ways},
        **(_reached(one, ceilings) if one.kernels else {}),
        jax=_told(one, one.jax),
        kernel=_told(one, one.kernels),
        **more,
        rounds=one.race.rounds,
        entered=one.entered,
        out=list(one.out),
        compared=versions("jax", "jaxlib"),
    )


def tell_failed(row: Row, reason: str) -> None:
    """Prints a figure without a value, of a row that could not be raced."""
    asked = {} if row.asked is None else {"target": row.asked}
    figure(
        f"kernels: {row.name}", None, _unit(row), **asked,
        cannot_be_raced=reason, compared=versions("jax", "jaxlib"),
    )  # fmt: skip


def _way(one: Raced, way: Way) -> dict[str, Any]:
    """By each clock, microseconds of who is best, and how many times as fast the kernel is."""
    found: dict[str, Any] = {}
    for clock in CLOCKS:
        found[f"naive_{clock}_us"] = microseconds(one.seconds(one.naive, way, clock))
        found[f"jax_{clock}_us"] = microseconds(
            one.seconds(one.best(one.jax, way, clock), way, clock)
        )
        if one.kernels:
            found[f"kernel_{clock}_us"] = microseconds(one.seconds(one.ours(clock), way, clock))
        found[f"over_jax_{clock}"] = _median(one.over_jax(way, clock))
        found[f"over_naive_{clock}"] = _median(one.over_naive(way, clock))
        found[f"noise_{clock}"] = _rounded(one.race.noise(way=way, clock=clock))
    return found


def _reached(one: Raced, ceilings: Ceilings | None) -> dict[str, Any]:
    """What the kernel gets through in a second, of what the machine can at best.

    Bytes are those of the program's inputs and outputs; and those that are read and written, where
    weights are coded, of which the share of the ceiling is.
    """
    seconds = one.seconds(one.ours(), one.race.deciding)
    moved, computed = traffic(one.row), operations(one.row)
    found = {
        "gigabytes_per_second": round(moved / seconds / 1e9, 2),
        "read_gigabytes_per_second": round(read(one) / seconds / 1e9, 2),
        "gigaflops": round(computed / seconds / 1e9, 2),
    }
    if ceilings is None:
        return found
    rate = flops_at_best(one.row, ceilings)
    return {
        **found,
        "ceilings": {
            "gigabytes_per_second": round(ceilings.bytes_per_second / 1e9, 2),
            "gigaflops": round(rate / 1e9, 2),
        },
        "of_the_ceiling": round(floor(one, ceilings) / seconds, 4),
        "of_the_ceiling_cold": _rounded(_cold_share(one, ceilings)),
    }


def _cold_share(one: Raced, ceilings: Ceilings) -> float | None:
    """Of the ceiling, where inputs come from memory: a cache may hold those of the calls before."""
    if not one.kernels or Way.COLD not in one.race.ways:
        return None
    return floor(one, ceilings) / one.seconds(one.ours(), Way.COLD)


def traffic(row: Row) -> int:
    """The bytes of what goes in and comes out, as the program has it."""
    program = row.program
    return sum(map(_size, (*program.inputs, *program.outputs)))


def read(one: Raced) -> float:
    """The bytes that the kernel that counts has to move: of what is coded, those of its codes.

    Heads of panels, which are not a hundredth, do not count; nor does what only fills panels up.
    """
    return traffic(one.row) - (1 - CODED_SIZE_RATIO) * sum(map(_size, _coded(one)))


def _coded(one: Raced) -> list[Term]:
    """The inputs of which it is given codes: nothing else makes whole numbers of bf16."""
    before = one.entrants[one.ours()].beforehand
    if before is None:
        return []
    inputs = one.row.program.inputs
    pairs = zip(before.positions, before.types, strict=True)
    return [
        inputs[at] for at, made in pairs if inputs[at].dtype is DType.BF16 and made.dtype == "int32"
    ]


def _size(term: Term) -> int:
    return int(str(bytes_of(term.type)))


def operations(row: Row) -> int:
    return int(str(cost(row.program).flops))


def floor(one: Raced, ceilings: Ceilings) -> float:
    """The least seconds: what has to be is moved once, or everything is computed."""
    moving = read(one) / ceilings.bytes_per_second
    return max(moving, operations(one.row) / flops_at_best(one.row, ceilings))


def flops_at_best(row: Row, ceilings: Ceilings) -> float:
    return ceilings.fastest("bfloat16" if row.key[1] == "bf16" else "float32")


def tell_all(races: Sequence[Raced], ceilings: Ceilings | None, failed: Sequence[Row] = ()) -> None:
    """Prints how many rows reach what is asked, and what those come to that have kernels.

    A row that could not be raced has not reached it.
    """
    shares = [] if ceilings is None else [_cold_share(one, ceilings) for one in races]
    if cold := [one for one in shares if one is not None]:
        high = sum(one >= STRETCH for one in cold)
        name = f"kernels: at {STRETCH:.0%} of the ceiling, inputs cold"
        figure(name, high, "rows", of=len(cold), compared=versions("jax", "jaxlib"))
    asked = [row for row in (*(one.row for one in races), *failed) if row.asked is not None]
    if not asked:
        return
    names = {row.name for row in asked}
    known = {one.row.name: one.headline for one in races if one.row.name in names}
    ratios = {name: ratio.median for name, ratio in known.items() if ratio is not None}
    missed = [row.name for row in asked if ratios.get(row.name, 0.0) < (row.asked or 0.0)]
    reached, compared = len(asked) - len(missed), versions("jax", "jaxlib")
    figure(
        "kernels: as fast as asked", reached, "rows",
        target=len(asked), missed=missed, compared=compared,
    )  # fmt: skip
    if not ratios:
        return
    mean, of = statistics.geometric_mean(ratios.values()), len(ratios)
    name = "kernels: geomean of what is asked for"
    figure(name, mean, _unit(asked[0]), of=of, compared=compared)


def _unit(row: Row) -> str:
    return OVER_NAIVE if row.over_naive else OVER_JAX


def tell_costs(found: Sequence[Costs]) -> None:
    """Prints what it takes to compile a candidate, to make it, and what comes before the first."""
    known = [one for one in found if one.compiling]
    if not known:
        return
    name = "kernels: making a candidate, its share of the writing included"
    _tell_cost("kernels: compiling a candidate", known, lambda one: one.compiling, target=LIMIT)
    _tell_cost(name, known, lambda one: one.each, kernels=KERNELS)
    _tell_cost("kernels: writing the first of a form", known, lambda one: [one.first])


def _tell_cost(
    name: str, known: Sequence[Costs], seconds: Callable[[Costs], Sequence[float]], **more: Any
) -> None:
    everyone = [each for one in known for each in seconds(one)]
    most = max(known, key=lambda one: max(seconds(one)))
    figure(f"{name}, median", statistics.median(everyone), "CPU s", **more, count=len(everyone))
    figure(f"{name}, most", max(everyone), "CPU s", **more, of=most.row.name)


def as_table(races: Sequence[Raced], ceilings: Ceilings | None) -> str:
    """A row for each."""
    rows = [HEAD, *(_cells(one, ceilings) for one in races)]
    return table(rows, right=frozenset(range(1, len(HEAD))))


def _cells(one: Raced, ceilings: Ceilings | None) -> tuple[str, ...]:
    way = one.race.deciding
    ratio = one.over_jax(way)
    kernel = one.seconds(one.ours(), way) if one.kernels else None
    times = (one.seconds(one.naive, way), one.seconds(one.best(one.jax, way), way), kernel)
    ratios = (ratio.median, ratio.low, ratio.high) if ratio else (None, None, None)
    cold = one.over_jax(Way.COLD) if Way.COLD in one.race.ways else None
    share = floor(one, ceilings) / kernel if kernel and ceilings else None
    return (
        one.row.name,
        *("" if each is None else f"{microseconds(each):,}" for each in times),
        *map(_shown, ratios),
        f"{one.race.noise(way=way) or 0:.1%}",
        *map(_shown, (_median(one.over_jax(way, Clock.CPU)), _median(cold))),
        _shown(_median(one.over_naive(way))),
        "" if share is None else f"{share:.0%}",
        one.row.by_hand,
        _shown(one.row.asked),
    )


def _told(one: Raced, places: Sequence[int]) -> dict[str, float]:
    """Microseconds of each in calls, the fastest first, by what was done."""
    way = one.race.deciding
    ranked = sorted(places, key=lambda at: one.seconds(at, way))
    return {one.entrants[at].how: microseconds(one.seconds(at, way)) for at in ranked}


def microseconds(seconds: float) -> float:
    """With two decimals: a kernel of a GPU may take four, and differ from another's by a tenth."""
    return round(seconds * 1e6, 2)


def _median(ratio: Ratio | None) -> float | None:
    return None if ratio is None else round(ratio.median, 4)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
