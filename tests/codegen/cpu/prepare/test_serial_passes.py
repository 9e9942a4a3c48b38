"""Blocks that go along an index tile by tile, and keep what is folded over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.lowered import attention, gated, norm
from testkit.kernels.native_run import MACHINES, program

from aiosearch.codegen.cpu.prepare.preparation import prepare_kernel
from aiosearch.codegen.cpu.prepare.serial_passes import serial_passes, tiles_read_later
from aiosearch.codegen.cpu.schedule import Schedule, serial
from aiosearch.codegen.cpu.space.block_footprint import BlockFootprint
from aiosearch.codegen.ir import (
    Apply,
    Buffer,
    BufferLoad,
    KernelStage,
    LoopIndex,
    Module,
    Operation,
    ReductionKind,
    TileKernel,
    index,
)
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.tensor import DType, apply, tensor


def softmax(dtype: DType = DType.F32, columns: int = 37) -> Module:
    x = tensor("X", dtype, (5, columns))
    e = apply("exp", x - apply("max", x, axes=(1,), keep=True))
    return lower(program(e / apply("sum", e, axes=(1,), keep=True)))


def along(module: Module, length: int) -> dict[str, Schedule]:
    """Every kernel along the first index that it can go along."""
    found = {}
    for kernel in module.kernels:
        own = serial(kernel)
        if own:
            found[kernel.name] = Schedule({own[0].name: length}, own[0].name)
    assert found
    return found


def test_a_softmax_has_three_passes() -> None:
    """One for the maximum, one for the sum, and one for what needs both."""
    kernel = softmax().kernels[0]
    found = serial_passes(kernel, serial(kernel)[0])
    assert [[stage.reduction.value for stage in one.along][-1] for one in found] == [
        "max",
        "sum",
        "none",
    ]


@pytest.mark.parametrize(
    ("length", "dtype"), [(1, DType.F32), (5, DType.F16), (16, DType.F32), (36, DType.F32)]
)
def test_softmax_tile_by_tile(length: int, dtype: DType) -> None:
    """Tiles of any length, the last one shorter, give what one tile does."""
    module = softmax(dtype)
    assert_right(module, schedules=along(module, length), machines=[host()])


def test_what_is_kept_is_not_computed_again() -> None:
    """A pass does what no pass before it has done; what later ones read lasts."""
    kernel = softmax().kernels[0]
    (way,) = serial(kernel)
    found = [stage for one in serial_passes(kernel, way, keeps=True) for stage in one.along]
    assert sorted(found, key=kernel.stages.index) == list(kernel.stages)
    again = [stage for one in serial_passes(kernel, way) for stage in one.along]
    assert len(again) > len(found)
    assert tiles_read_later(kernel, way) <= {stage.target for stage in kernel.stages} - {
        *kernel.outputs
    }
    assert tiles_read_later(kernel, way)
    room = BlockFootprint(kernel)
    again, kept = (room.bytes({way.name: 5}, way.name, keeps, ()) for keeps in (False, True))
    assert kept > again


def test_copies_are_made_in_the_pass_that_wants_them() -> None:
    """What the last pass alone reads is not copied in the first."""
    kernel = average()
    (way,) = (one for one in serial(kernel) if one.size == 37)
    own = Schedule({way.name: 5}, way.name, staged=("Y",))
    copied = prepare_kernel(kernel, own)
    made = [
        [stage.target.name for stage in one.along]
        for one in serial_passes(copied.kernel, copied.serial, keeps=True)
    ]
    assert ["Y.tile0" in names for names in made[:2]] == [False, True]
    module = Module("average", kernel.inputs, kernel.outputs, (kernel,))
    for keeps in (True, False):
        schedules = {kernel.name: replace(own, keeps=keeps)}
        assert_right(module, schedules=schedules, machines=[host()])


def average() -> TileKernel:
    """By weights that are divided by their sum before they are used."""
    i, j, k = LoopIndex("i", 5), LoopIndex("j", 37), LoopIndex("k", 6)
    at, down, out = (index(i), index(j)), (index(j), index(k)), (index(i), index(k))
    x, y = Buffer("X", DType.F32, (5, 37)), Buffer("Y", DType.F32, (37, 6))
    e, total = Buffer("e", DType.F32, (5, 37)), Buffer("s", DType.F32, (5,))
    share, result = Buffer("p", DType.F32, (5, 37)), Buffer("o", DType.F32, (5, 6))
    weights = Apply(Operation.DIVIDE, (BufferLoad(e, at), BufferLoad(total, (index(i),))))
    product = Apply(Operation.MULTIPLY, (BufferLoad(share, at), BufferLoad(y, down)))
    stages = (
        KernelStage(e, at, Apply(Operation.EXP, (BufferLoad(x, at),))),
        KernelStage(total, (index(i),), BufferLoad(e, at), (j,), ReductionKind.SUM),
        KernelStage(share, at, weights),
        KernelStage(result, out, product, (j,), ReductionKind.SUM),
    )
    return TileKernel("average", (x, y), (result,), stages)


@pytest.mark.parametrize("length", [5, 16, 37])
@pytest.mark.parametrize("made", [softmax, lambda: lower(attention())])
def test_kept_tiles_give_the_same(made: Callable[[], Module], length: int) -> None:
    """Also with copies of inputs, each made in the pass that reads it."""
    module = made()
    for staged in ((), tuple(one.name for one in module.inputs)):
        own = {
            name: replace(one, keeps=True, staged=staged)
            for name, one in along(module, length).items()
        }
        assert_right(module, schedules=own, machines=[host()])


@pytest.mark.parametrize(("machine", "length"), [*zip(MACHINES, [6, 16, 1], strict=True)])
def test_custom_kernels_tile_by_tile(machine: str, length: int) -> None:
    """Products, a norm and attention, along what they add up."""
    for made in (norm, gated, attention):
        module = lower(made())
        assert_right(module, schedules=along(module, length), machines=[MACHINES[machine]])


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.F16, DType.F64, DType.I32])
@pytest.mark.parametrize("name", ["sum", "max"])
def test_totals_that_are_outputs(dtype: DType, name: str) -> None:
    """They are kept in 32 bits until the last tile is done, where they are not wider anyway."""
    x = tensor("X", dtype, (18, 45))
    module = lower(program(*(apply(name, x, axes=(axis,)) for axis in (0, 1))))
    assert_right(module, schedules=along(module, 7), machines=[host()])


def test_an_index_of_no_fold_is_none_to_go_along() -> None:
    """Nor is one that folds read at other places than it runs over."""
    x = tensor("X", DType.F32, (4, 6))
    kernel = lower(program(apply("exp", x))).kernels[0]
    assert serial(kernel) == ()
