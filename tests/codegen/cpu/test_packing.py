"""Inputs that were laid out beforehand, and tiles that a block lays out for itself."""

from __future__ import annotations

import math

import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.native_run import MACHINES, drawn, packed, program

from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.emit.panels import is_transposable
from aiosearch.codegen.cpu.packing import PackedLayout
from aiosearch.codegen.cpu.register_layout import RegisterRequest
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.ir import Module
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import CpuMachine, host, masked
from aiosearch.tensor import DType, apply, tensor


def product(dtype: DType, rows: int, inner: int, columns: int) -> Module:
    return lower(program(tensor("X", dtype, (rows, inner)) @ tensor("Y", dtype, (inner, columns))))


EACH = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def lanes(machine: CpuMachine = MACHINES["host"]) -> int:
    return machine.width // 4


def wide(
    vectors: int, machine: CpuMachine = MACHINES["host"], *, pairs: bool = False
) -> dict[str, PackedLayout]:
    return {"Y": PackedLayout(0, 1, vectors * lanes(machine), pairs)}


def test_a_panel_holds_its_rows_one_after_the_other() -> None:
    """Columns beyond the last are zero, as is a row beyond an odd number of them."""
    values = drawn(product(DType.F32, 1, 3, 5))[1]
    layout = PackedLayout(0, 1, 4, False)
    panels = packed(values, layout)
    assert panels.shape == layout.shape(values.shape) == (2, 3, 4)
    assert (panels[0] == values[:, :4]).all()
    assert (panels[1, :, 0] == values[:, 4]).all()
    assert not panels[1, :, 1:].any()
    layout = PackedLayout(0, 1, 4, True)
    pairs = packed(values, layout)
    assert pairs.shape == layout.shape(values.shape) == (2, 2, 4, 2)
    assert (pairs[0, 0, :, 1] == values[1, :4]).all()
    assert not pairs[:, 1, :, 1].any()


@EACH
@pytest.mark.parametrize("columns", [5, 16, 17, 100])
@pytest.mark.parametrize("vectors", [1, 2, 3])
def test_columns_that_do_not_fill_a_panel(columns: int, vectors: int, machine: CpuMachine) -> None:
    """Panels are as wide as some vectors, whatever the number of columns."""
    module = product(DType.F32, 5, 7, columns)
    own = Schedule(registers=RegisterRequest(vectors=vectors), layouts=wide(vectors, machine))
    assert_right(module, schedules={"program": own}, machines=[machine])


@EACH
@pytest.mark.parametrize("inner", [1, 2, 7])
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("rows", [1, 9])
def test_pairs_of_rows(inner: int, pairs: bool, rows: int, machine: CpuMachine) -> None:
    """Half types lie by pairs of rows or not, also where the number of rows is odd."""
    module = product(DType.BF16, rows, inner, 40)
    own = Schedule(registers=RegisterRequest(vectors=2), layouts=wide(2, machine, pairs=pairs))
    assert_right(module, schedules={"program": own}, machines=[machine])


@pytest.mark.parametrize("tile", [3, 4, 6])
def test_pairs_of_rows_that_tiles_take_apart(tile: int) -> None:
    """A tile may begin at the second row of a pair."""
    module = product(DType.BF16, 3, 13, 37)
    k = next(one.name for one in module.kernels[0].indices if one.size == 13)
    own = Schedule({k: tile}, k, RegisterRequest(vectors=2), wide(2, pairs=True))
    assert_right(module, schedules={"program": own}, machines=[host()])


@pytest.mark.parametrize("pairs", [False, True])
def test_pairs_without_their_instruction(pairs: bool) -> None:
    """What is more than a product of two loads reads pairs one by one."""
    x, y = tensor("X", DType.BF16, (4, 9)), tensor("Y", DType.BF16, (9, 33))
    module = lower(program(apply("transpose", x, axes=(1, 0)), x @ y, (x * 2) @ y))
    own = {one.name: Schedule(layouts=wide(1, pairs=pairs)) for one in module.kernels}
    readers = [one for one in module.kernels if any(each.name == "Y" for each in one.inputs)]
    assert len(readers) > 1
    assert_right(module, schedules=own, machines=[host()])


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16])
def test_of_a_last_lane_no_more_is_stored_than_it_has(dtype: DType) -> None:
    """Nothing is behind the output. LLVM stores four bytes where the numbers were longer before."""
    x, y = tensor("X", dtype, (4, 9)), tensor("Y", dtype, (9, 33))
    module = lower(program(x @ y))
    own = {one.name: Schedule(layouts=wide(1, pairs=False)) for one in module.kernels}
    assert_right(module, schedules=own, machines=[masked(host(), "avx512bf16")])


@pytest.mark.parametrize("width", [0, 32, 16])
@pytest.mark.parametrize("to", [DType.BF16, DType.F16, DType.BOOL, DType.I32])
@pytest.mark.parametrize("of", [DType.F64, DType.F32])
def test_of_a_number_that_was_longer_no_more_is_stored(of: DType, to: DType, width: int) -> None:
    """However many lanes a vector has."""
    module = lower(program(apply("cast", tensor("X", of, (4, 17)), dtype=to)))
    (kernel,) = module.kernels
    own = Schedule({kernel.indices[0].name: 1}, width=width)
    machines = [host(), masked(host(), "avx512bf16")]
    assert_right(module, schedules={kernel.name: own}, machines=machines)


@pytest.mark.parametrize("tile", [1, 2, 3])
def test_tiles_of_whole_vectors(tile: int) -> None:
    """Blocks begin at any vector of a panel."""
    module = product(DType.F32, 5, 7, 100)
    j = next(one.name for one in module.kernels[0].indices if one.size == 100)
    own = Schedule({j: tile * lanes()}, registers=RegisterRequest(vectors=tile), layouts=wide(2))
    assert_right(module, schedules={"program": own}, machines=[host()])


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.F64])
def test_stacks_of_matrices(dtype: DType) -> None:
    """Axes that are neither rows nor columns of panels stay in front, whichever they are."""
    x, y = tensor("X", dtype, (3, 4, 7)), tensor("Y", dtype, (7, 3, 21))
    module = lower(program(x @ apply("transpose", y, axes=(1, 0, 2))))
    pairs = dtype is DType.BF16 and host().bf16_dot
    own = Schedule(layouts={"Y": PackedLayout(0, 2, 2 * lanes(), pairs)})
    assert_right(module, schedules={"program": own}, machines=[host()])


def test_lanes_along_what_panels_do_not_hold() -> None:
    """A stage whose results lie along a stack reads its matrices column by column all the same."""
    x = tensor("Y", DType.F32, (33, 18, 5))
    module = lower(program(apply("transpose", apply("sum", x, axes=(2,)), axes=(1, 0))))
    own = Schedule(layouts={"Y": PackedLayout(2, 1, lanes(), False)})
    assert_right(module, schedules={"program": own}, machines=[host()])


@EACH
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize("turned", [False, True])
def test_blocks_that_lay_out_their_tiles(dtype: DType, turned: bool, machine: CpuMachine) -> None:
    """The result is the same, whichever axis of the input lies close together."""
    x, y = tensor("X", dtype, (19, 45)), tensor("Y", dtype, (50, 45) if turned else (45, 50))
    module = lower(program(x @ (apply("transpose", y, axes=(1, 0)) if turned else y)))
    names = {one.size: one.name for one in module.kernels[0].indices}
    pairs, wide = dtype is DType.BF16 and machine.bf16_dot, 2 * lanes(machine)
    for tiles, serial in (({}, None), ({names[50]: wide, names[45]: 14}, names[45])):
        vectors = 2 if serial is None else 1
        layout = PackedLayout(int(turned), int(not turned), vectors * lanes(machine), pairs)
        own = Schedule(tiles, serial, RegisterRequest(4, vectors, unroll=2), panels={"Y": layout})
        assert_right(module, schedules={"program": own}, machines=[machine])


@EACH
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.F64])
@pytest.mark.parametrize(("rows", "inner"), [(16, 64), (19, 77)])
def test_rows_that_lie_side_by_side(
    dtype: DType, rows: int, inner: int, machine: CpuMachine
) -> None:
    """What columns share is turned before: whole squares, and what is left of them."""
    module = product(dtype, rows, inner, 50)
    names = {one.size: one.name for one in module.kernels[0].indices}
    pairs = dtype is DType.BF16 and machine.bf16_dot
    for width in (2, 4, 8, 16):
        if not is_transposable(width, lanes(machine)):
            continue
        turned = {"X": PackedLayout(1, 0, width, pairs)}
        for tiles, serial in (({}, None), ({names[rows]: width, names[inner]: 6}, names[inner])):
            own = Schedule(tiles, serial, RegisterRequest(width, 1, unroll=2), transposed=turned)
            assert_right(module, schedules={"program": own}, machines=[machine])


def test_rows_of_stacks_side_by_side() -> None:
    """And both factors in panels at once."""
    x, y = tensor("X", DType.BF16, (3, 18, 7)), tensor("Y", DType.BF16, (3, 7, 40))
    module, pairs = lower(program(x @ y)), host().bf16_dot
    layout = PackedLayout(1, 2, lanes(), pairs)
    own = Schedule(
        registers=RegisterRequest(8, 1),
        transposed={"X": PackedLayout(2, 1, 8, pairs)},
        panels={"Y": layout},
    )
    assert_right(module, schedules={"program": own}, machines=[host()])


def test_squares_are_turned_in_registers() -> None:
    """Rows that lie apart are read vector by vector; there is no gathering."""
    module = product(DType.F32, 8, 64, 3 * lanes())
    own = Schedule(registers=RegisterRequest(8, 1), transposed={"X": PackedLayout(1, 0, 8, False)})
    text = print_module(module, {"program": own}, host()).text
    turning, _ = text.split("define void")[-2:]
    at_once = min(8, lanes())
    assert turning.count("shufflevector") == at_once * int(math.log2(at_once))
    assert "gather" not in turning
    assert turning.count("load float,") == 0


def said(nearest: bool) -> str:
    """At the end of a line that fetches."""
    return f"i32 0, i32 {3 if nearest else 2}, i32 1)"


@pytest.mark.parametrize("nearest", [False, True])
def test_what_is_fetched_ahead_comes_into_the_cache_that_is_said(nearest: bool) -> None:
    module = product(DType.F32, 8, 64, 3 * lanes())
    layout = PackedLayout(0, 1, lanes(), False)
    own = Schedule(
        registers=RegisterRequest(4, 1, prefetch_distance=3, prefetch_to_l1=nearest),
        layouts={"Y": layout},
    )
    text = print_module(module, {"program": own}, host()).text
    near = [line for line in text.splitlines() if "call void @llvm.prefetch" in line]
    assert near
    assert all(line.endswith(said(nearest)) for line in near)


@pytest.mark.parametrize("serial", [False, True])
def test_the_next_tile_is_fetched_while_products_of_one_are_added_up(serial: bool) -> None:
    """A line of each of its rows, where there is a next tile."""
    module = product(DType.F32, 12, 64, 3 * lanes())
    (k,) = (one.name for one in module.kernels[0].indices if one.size == 64)
    tiles, along = ({k: 16}, k) if serial else ({}, None)
    layout = PackedLayout(0, 1, lanes(), False)
    own = Schedule(tiles, along, RegisterRequest(rows=4, vectors=1), panels={"Y": layout})
    text = print_module(module, {"program": own}, host()).text
    assert text.count("call void @llvm.prefetch") == (1 if serial else 0)
