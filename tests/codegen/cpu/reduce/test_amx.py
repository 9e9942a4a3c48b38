"""Products that a matrix unit takes up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.native_run import program

from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.packing import PackedLayout
from aiosearch.codegen.cpu.reduce.amx_unit import AMX_TILES, AmxTileAssignment, amx_tiles_needed
from aiosearch.codegen.cpu.register_layout import RegisterRequest
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.cpu.space.choices import schedule_space
from aiosearch.codegen.errors import NativeError
from aiosearch.codegen.ir import Module
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native import compiler
from aiosearch.codegen.native.assembly import assembly_text
from aiosearch.codegen.native.machine import CpuMachine, host, masked
from aiosearch.codegen.schedule.space import ScheduleChoice, ranked_choices
from aiosearch.tensor import DType, apply, tensor

runs = pytest.mark.skipif(not host().bf16_matrix, reason="this processor has no AMX")
LARGE = CpuMachine(
    "x86_64-unknown-linux-gnu",
    "sapphirerapids",
    "+avx,+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512bf16,+amx-tile,+amx-bf16",
)


def product(rows: int, inner: int, columns: int) -> Module:
    x, y = tensor("X", DType.BF16, (rows, inner)), tensor("Y", DType.BF16, (inner, columns))
    return lower(program(x @ y))


def wide(vectors: int) -> dict[str, PackedLayout]:
    return {"Y": PackedLayout(0, 1, vectors * 16, True)}


def matrix(rows: int, vectors: int, unroll: int = 2, ahead: int = 0) -> RegisterRequest:
    return RegisterRequest(rows, vectors, unroll, ahead, matrix=True)


def by_matrix(one: ScheduleChoice[Schedule]) -> bool:
    return one.schedule.registers.matrix


@runs
@pytest.mark.parametrize("rows", [1, 16, 40])
@pytest.mark.parametrize("inner", [33, 95, 256])
@pytest.mark.parametrize("columns", [17, 100])
@pytest.mark.parametrize(("held", "vectors"), [(16, 2), (32, 2), (16, 4), (48, 1)])
def test_what_does_not_fill_tiles_is_computed_as_well(
    rows: int, inner: int, columns: int, held: int, vectors: int
) -> None:
    """Rows, columns and products that are left over."""
    module = product(rows, inner, columns)
    own = Schedule(registers=matrix(held, vectors, 1 + rows % 4, inner % 2), layouts=wide(vectors))
    assert_right(module, schedules={"program": own}, machines=[host()])


@runs
@pytest.mark.parametrize("rows", [1, 16, 40])
@pytest.mark.parametrize("inner", [33, 95, 256])
@pytest.mark.parametrize("columns", [17, 100])
@pytest.mark.parametrize(("held", "vectors"), [(16, 2), (32, 2), (16, 3), (16, 5), (48, 1)])
def test_rows_that_were_not_laid_out_are_woven(
    rows: int, inner: int, columns: int, held: int, vectors: int
) -> None:
    """Two vectors of two rows at a time, the last one of an odd number alone."""
    wishes = replace(matrix(held, vectors, 1 + rows % 4, rows % 3), prefetch_to_l1=columns == 17)
    own = {"program": Schedule(registers=wishes)}
    assert_right(product(rows, inner, columns), schedules=own, machines=[host()])


@runs
@pytest.mark.parametrize("layouts", [{}, wide(2)], ids=["woven", "panels"])
@pytest.mark.parametrize("length", [32, 34, 70])
def test_sums_are_added_tile_by_tile(length: int, layouts: dict[str, PackedLayout]) -> None:
    """A block that goes along what is summed adds to what is there, wherever its tiles begin."""
    module = product(20, 100, 40)
    k = next(one.name for one in module.kernels[0].indices if one.size == 100)
    own = Schedule({k: length}, k, matrix(16, 2), layouts)
    assert_right(module, schedules={"program": own}, machines=[host()])


@runs
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    "panels", [{"Y": PackedLayout(1, 2, 16, True)}, {}], ids=["panels", "woven"]
)
def test_panels_of_a_block_and_stacks(turned: bool, panels: dict[str, PackedLayout]) -> None:
    """A block lays its tile out for itself or not; rows of the other factor may lie far apart."""
    x, y = tensor("X", DType.BF16, (3, 19, 70)), tensor("Y", DType.BF16, (3, 70, 45))
    x = apply("transpose", tensor("X", DType.BF16, (19, 3, 70)), axes=(1, 0, 2)) if turned else x
    module = lower(program(x @ y))
    own = Schedule(registers=matrix(16, 1), panels=panels)
    assert_right(module, schedules={"program": own}, machines=[host()])


@runs
def test_what_is_made_of_sums_is_made_on_the_way() -> None:
    """And products that the unit does not take, in the same kernel, are computed as usual."""
    x, y = tensor("X", DType.BF16, (18, 64)), tensor("Y", DType.BF16, (64, 40))
    z = tensor("Z", DType.BF16, (18, 40))
    module = lower(program(apply("exp", apply("tanh", x @ y)) + z, apply("sum", z, axes=(1,))))
    own = {one.name: Schedule(registers=matrix(16, 2), layouts=wide(2)) for one in module.kernels}
    assert_right(module, schedules=own, machines=[host()])


def test_it_is_used_where_there_is_one() -> None:
    """A machine without it gets other instructions by the same schedule."""
    module = product(32, 256, 64)
    own = {"program": Schedule(registers=matrix(32, 2), layouts=wide(2))}
    text = assembly_text(print_module(module, own, LARGE), LARGE)
    assert "tdpbf16ps" in text
    assert "tilerelease" in text
    without = masked(LARGE, "amx")
    assert "tdpbf16ps" not in assembly_text(print_module(module, own, without), without)


def test_tiles_are_of_one_kind_each() -> None:
    """Sums, parts of rows and vectors never share one, and those that are left take turns."""
    for rows, vectors in ((16, 4), (32, 2), (48, 1), (9, 5)):
        own = AmxTileAssignment(rows, vectors)
        parts = range(len(own.heights))
        sums = {own.sums(part, at) for part in parts for at in range(vectors)}
        shared = {own.shared(part) for part in parts}
        moving = {own.moving(at) for at in range(vectors)}
        assert len(sums) + len(shared) == len(parts) * (vectors + 1)
        assert not sums & shared | sums & moving | shared & moving
        assert max(moving) < AMX_TILES
        assert amx_tiles_needed(rows, vectors) <= AMX_TILES
    assert AmxTileAssignment(20, 2).rows_of_tiles == (16, 16, 4, 4, 16, 4, 16, 16)


def test_schedules_are_for_it() -> None:
    """Its rows and vectors are proposed, and predicted to be fastest, for many rows."""
    (kernel,) = product(64, 1024, 1024).kernels
    found = ranked_choices(schedule_space(kernel, LARGE, 2, ["Y"]))
    assert found[0].schedule.registers.matrix
    own = [one.schedule for one in found if by_matrix(one)]
    assert {bool(one.layouts) for one in own} == {bool(one.panels) for one in own} == {True, False}
    assert any(not one.layouts and not one.panels for one in own)
    assert not any(
        by_matrix(one) for one in ranked_choices(schedule_space(kernel, masked(LARGE, "amx"), 2))
    )


def test_few_rows_of_large_matrices_are_woven() -> None:
    """What is read once is not laid out for that, neither in panels nor beforehand."""
    (kernel,) = product(8, 4096, 4096).kernels
    best = ranked_choices(schedule_space(kernel, LARGE, 2))[0].schedule
    assert best.registers.matrix
    assert not best.panels


def test_factors_that_lie_in_columns_are_not_for_it() -> None:
    """The unit takes neighbours of one factor, so they have to lie along what is summed."""
    x, y = tensor("X", DType.BF16, (1024, 64)), tensor("Y", DType.BF16, (1024, 1024))
    (kernel,) = lower(program(apply("transpose", x, axes=(1, 0)) @ y)).kernels
    assert not any(
        by_matrix(one) for one in ranked_choices(schedule_space(kernel, LARGE, 2, ["Y"]))
    )


def test_what_lanes_read_in_columns_is_laid_out_for_it() -> None:
    """Nothing is woven whose lanes lie apart."""
    x, y = tensor("X", DType.BF16, (64, 1024)), tensor("Y", DType.BF16, (1024, 1024))
    (kernel,) = lower(program(x @ apply("transpose", y, axes=(1, 0)))).kernels
    found = [
        one.schedule for one in ranked_choices(schedule_space(kernel, LARGE, 2)) if by_matrix(one)
    ]
    assert all(one.panels for one in found)


def test_a_process_that_may_not_use_it_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is loaded, and only where the program needs it."""
    monkeypatch.setattr(compiler, "request_amx_permission", lambda: False)
    own = {"program": Schedule(registers=matrix(32, 2), layouts=wide(2))}
    with pytest.raises(NativeError, match="does not let this process use AMX, as program does"):
        compiler.load(print_module(product(32, 64, 64), own, LARGE), b"", b"")
