"""A CPU schedule as text for people."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..ir import TileKernel
from .packing import PackedLayout
from .prepare.preparation import tiled_serial_index
from .schedule import Schedule, blocked


def describe_schedule(kernel: TileKernel, schedule: Schedule) -> str:
    """The kernel's name, and a line each: blocks, the way through one, registers, inputs."""
    parts = [_blocks(kernel, schedule), *_way(kernel, schedule), *_registers(kernel, schedule)]
    parts += _width(schedule)
    parts += [_layout(*one) for one in schedule.layouts.items()]
    parts += [f"a block copies its tile of {name}" for name in schedule.staged]
    parts += [
        "copies of halves, and what a block makes for products of them, are f32"
    ] * schedule.wide
    parts += [f"a block lays out {_layout(*one)}" for one in schedule.panels.items()]
    return "\n  ".join([kernel.name, *parts])


def _blocks(kernel: TileKernel, schedule: Schedule) -> str:
    cut = [one for one in blocked(kernel) if schedule.tile(one) < one.size]
    if not cut:
        return "one block"
    count = math.prod(map(schedule.count, cut))
    tiles = " and ".join(f"{schedule.tile(one)} of {one}'s {one.size}" for one in cut)
    order = f", along {schedule.fastest} first" if schedule.fastest else ""
    return f"{count} blocks, each {tiles}{order}"


def _way(kernel: TileKernel, schedule: Schedule) -> Iterator[str]:
    way = tiled_serial_index(kernel, schedule)
    if way is not None:
        kept = ", keeping what it needs again" if schedule.keeps else ""
        yield f"goes along {way} by {schedule.tile(way)}{kept}"


def _registers(kernel: TileKernel, schedule: Schedule) -> Iterator[str]:
    """What is folded stays in registers."""
    if not any(stage.folded for stage in kernel.stages):
        return
    wishes = schedule.wishes
    sums = f"{_count(wishes.rows, 'row')} by {_count(wishes.vectors, 'vector')} of sums"
    held = "a matrix unit" if wishes.matrix else "registers"
    yield f"{sums if wishes.rows else 'sums'} in {held}, {_count(wishes.unroll, 'step')} a turn"
    if wishes.lanes is not None:
        rows, columns = wishes.lanes
        chains = f", {_count(wishes.chains, 'chain')} each" if wishes.chains else ""
        held = f"{_count(rows, 'row')} by {_count(columns, 'column')}"
        yield f"{held} of sums where lanes lie along what is folded{chains}"
    if wishes.ahead:
        into = ", into the first cache" if wishes.nearest else ""
        ahead = (wishes.ahead, "block") if wishes.across else (2 * wishes.ahead, "row")
        yield f"fetches {_count(*ahead)} ahead{into}"


def _width(schedule: Schedule) -> Iterator[str]:
    if schedule.width:
        yield f"vectors of {schedule.width} bytes"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _layout(name: str, layout: PackedLayout) -> str:
    pairs = ", rows in pairs" if layout.pairs else ""
    coded = ", twelve bits for sixteen" if layout.coded else ""
    return f"{name} packed in panels of {layout.width} along axis {layout.column}{pairs}{coded}"
