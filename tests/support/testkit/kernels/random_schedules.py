"""Schedules of a kernel drawn at random: anything that keeps to the rules, wise or not."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from aiosearch.codegen.cpu.index_roles import codable_inputs, packable_inputs
from aiosearch.codegen.cpu.packing import PackedLayout
from aiosearch.codegen.cpu.register_layout import RegisterRequest
from aiosearch.codegen.cpu.schedule import Schedule, blocked, serial
from aiosearch.codegen.ir import Module, TileKernel, single_index
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import CpuMachine
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.tensor import DType, Program


def in_a_way(program: Program, number: int) -> Module:
    """One of the modules that `optimize` makes of a program."""
    plain = lower(program)
    return fuse_kernels(plain) if number // 2 % 2 else plain


def drawn_schedules(module: Module, random: Random, machine: CpuMachine) -> dict[str, Schedule]:
    """One for each kernel. Inputs are packed only where one kernel alone reads them."""
    return {kernel.name: _schedule(module, kernel, random, machine) for kernel in module.kernels}


def _schedule(module: Module, kernel: TileKernel, random: Random, machine: CpuMachine) -> Schedule:
    tiles = {
        one.name: random.randint(1, one.size)
        for one in blocked(kernel)
        if one.size > 1 and random.random() < 0.6
    }
    along = random.choice([None, *serial(kernel)])
    if along is not None:
        tiles[along.name] = random.randint(1, max(1, along.size))
    rows, vectors = random.choice([0, 1, 2, 3, 8, 16, 20]), random.choice([0, 1, 2, 4])
    matrix = machine.bf16_matrix and random.random() < 0.5
    narrow = machine.width > 16 and not matrix and random.random() < 0.3
    own = Schedule(
        tiles=tiles,
        serial=along.name if along else None,
        keeps=random.random() < 0.5,
        registers=RegisterRequest(
            rows,
            vectors,
            random.choice([1, 2, 4]),
            random.choice([0, 0, 3]),
            matrix,
            prefetch_to_l1=random.random() < 0.5,
            lanes=random.choice([None, (1, 1), (2, 3), (8, 1)]),
            chains=random.choice([0, 1, 3]),
        ),
        staged=tuple(one.name for one in kernel.inputs if random.random() < 0.3),
        width=machine.width // 2 if narrow else 0,
    )
    return _turned(_packed(module, kernel, own, random, machine), kernel, random, machine)


def _turned(own: Schedule, kernel: TileKernel, random: Random, machine: CpuMachine) -> Schedule:
    """With inputs turned first along any two of their axes; what is coded wants its own."""
    if any(one.coded for one in own.layouts.values()):
        return own
    found: dict[str, PackedLayout] = {}
    for one in kernel.inputs:
        laid = {*own.layouts, *own.panels, *own.staged}
        if len(one.shape) < 2 or one.name in laid or random.random() < 0.6:
            continue
        column, row = random.sample(range(len(one.shape)), 2)
        lanes = machine.width // 4
        width = random.choice([lanes, 2 * lanes])
        if row == len(one.shape) - 1:
            width = random.choice([2, 4, lanes, 2 * lanes])
        pairs = one.dtype is DType.BF16 and machine.bf16_dot
        found[one.name] = PackedLayout(row, column, width, pairs)
    return replace(own, transposed=found)


def _packed(
    module: Module, kernel: TileKernel, own: Schedule, random: Random, machine: CpuMachine
) -> Schedule:
    """With an input laid out beforehand, tiles being whole panels of it."""
    vectors, draw = random.choice([1, 2, 3, 4]), random.random()
    others = {one.name for other in module.kernels if other != kernel for one in other.inputs}
    names = {one.name for one in module.inputs} - {one.name for one in module.outputs} - others
    if draw < 0.3:
        names = {one.name for one in kernel.inputs}
    candidates = packable_inputs(kernel, names, machine, again=draw < 0.3)
    if not candidates or draw > 0.7:
        return own
    name, layout = random.choice(sorted(candidates.items()))
    layout = replace(layout, width=own.lanes(machine.width) * vectors)
    tiles = dict(own.tiles)
    loads = [load for stage in kernel.stages for load in stage.loads if load.buffer.name == name]
    column = single_index(loads[0].at[layout.column])
    assert column is not None
    inner = single_index(loads[0].at[layout.row])
    fills = name in codable_inputs(kernel, candidates, machine) and column.size % layout.width == 0
    even = inner is None or tiles.get(inner.name, 2) % 2 == 0
    whole = even and vectors % 2 == 0 and not own.width
    coded = fills and whole and draw >= 0.3 and random.random() < 0.5
    if column.name in tiles:
        step = layout.width if coded else layout.width // vectors
        tiles[column.name] += -tiles[column.name] % step
    staged = tuple(one for one in own.staged if one != name)
    wishes = replace(own.registers, vectors=vectors)
    found = replace(own, tiles=tiles, registers=wishes, staged=staged)
    laid = {name: replace(layout, coded=coded)}
    return replace(found, panels=laid) if draw < 0.3 else replace(found, layouts=laid)
