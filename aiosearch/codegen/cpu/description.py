"""A CPU schedule as text for people, as `aiosearch explain --show schedule` prints it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..ir import TileKernel
from .packing import PackedLayout
from .prepare.preparation import tiled_serial_index
from .schedule import Schedule, blocked


def describe_schedule(kernel: TileKernel, schedule: Schedule) -> str:
    """The `kernel`'s name, and a line each for blocks, serial loop, registers, vector width and
    inputs.

    Example, for a bf16 product of 8 rows:

        program
          128 blocks, each 32 of j's 4096
          8 rows by 2 vectors of sums in registers, 2 steps a turn
          fetches 128 rows ahead
          W packed in panels of 32 along axis 1, rows in pairs, twelve bits for sixteen
    """
    parts = [_blocks(kernel, schedule), *_way(kernel, schedule), *_registers(kernel, schedule)]
    parts += _width(schedule)
    parts += [_layout(*named_layout) for named_layout in schedule.layouts.items()]
    parts += [f"a block copies its tile of {name}" for name in schedule.staged]
    parts += [
        "copies of halves, and what a block makes for products of them, are f32"
    ] * schedule.wide
    parts += [
        f"a block lays out {_layout(*named_layout)}" for named_layout in schedule.panels.items()
    ]
    return "\n  ".join([kernel.name, *parts])


def _blocks(kernel: TileKernel, schedule: Schedule) -> str:
    """The line that says into how many blocks of which size the `kernel` is cut."""
    cut = [index for index in blocked(kernel) if schedule.tile(index) < index.size]
    if not cut:
        return "one block"
    count = math.prod(map(schedule.count, cut))
    tiles = " and ".join(f"{schedule.tile(index)} of {index}'s {index.size}" for index in cut)
    order = f", along {schedule.fastest} first" if schedule.fastest else ""
    return f"{count} blocks, each {tiles}{order}"


def _way(kernel: TileKernel, schedule: Schedule) -> Iterator[str]:
    """The line of the serial loop, if there is one."""
    way = tiled_serial_index(kernel, schedule)
    if way is not None:
        retention = ", keeping what it needs again" if schedule.keeps else ""
        yield f"goes along {way} by {schedule.tile(way)}{retention}"


def _registers(kernel: TileKernel, schedule: Schedule) -> Iterator[str]:
    """The lines of register tile, lane counts and prefetch, of a `kernel` that reduces."""
    if not any(stage.folded for stage in kernel.stages):
        return
    request = schedule.registers
    sums = f"{_count(request.rows, 'row')} by {_count(request.vectors, 'vector')} of sums"
    held = "a matrix unit" if request.matrix else "registers"
    yield f"{sums if request.rows else 'sums'} in {held}, {_count(request.unroll, 'step')} a turn"
    if request.lanes is not None:
        rows, columns = request.lanes
        chains = f", {_count(request.chains, 'chain')} each" if request.chains else ""
        held = f"{_count(rows, 'row')} by {_count(columns, 'column')}"
        yield f"{held} of sums where lanes lie along what is folded{chains}"
    if request.prefetch_distance:
        into = ", into the first cache" if request.prefetch_to_l1 else ""
        ahead = (
            (request.prefetch_distance, "block")
            if request.prefetch_along_lanes
            else (2 * request.prefetch_distance, "row")
        )
        yield f"fetches {_count(*ahead)} ahead{into}"


def _width(schedule: Schedule) -> Iterator[str]:
    """The line of the vector width, if it is not the widest."""
    if schedule.width:
        yield f"vectors of {schedule.width} bytes"


def _count(number: int, what: str) -> str:
    """A number with its noun in singular or plural."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _layout(name: str, layout: PackedLayout) -> str:
    """The line of a packed layout."""
    pairs = ", rows in pairs" if layout.pairs else ""
    coded = ", twelve bits for sixteen" if layout.coded else ""
    return f"{name} packed in panels of {layout.width} along axis {layout.column}{pairs}{coded}"
