"""What is fetched of rows that lie apart: which lines, in which schedules."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace

import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.native_run import MACHINES, drawn, program, run_native

from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.register_layout import RegisterRequest
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.cpu.space.choices import choices, schedule_space
from aiosearch.codegen.ir import Module, TileKernel
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.codegen.schedule.space import neighbouring_choices, ranked_choices
from aiosearch.tensor import DType, tensor

LINE = 64


def product(rows: int, inner: int, columns: int, dtype: DType = DType.F32) -> Module:
    return lower(program(tensor("X", dtype, (rows, inner)) @ tensor("W", dtype, (inner, columns))))


def down(kernel: TileKernel) -> str:
    """The name of what is folded."""
    (stage,) = kernel.stages
    (inner,) = stage.folded
    return inner.name


def fetched(module: Module, own: Schedule) -> list[int]:
    """The addresses, in order, as the machine code gives them."""
    found: list[int] = []
    taken = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(found.append)
    address = ctypes.cast(taken, ctypes.c_void_p).value
    called = f"call void inttoptr (i64 {address} to ptr)(\\1)"
    printed = print_module(module, {module.kernels[0].name: own}, host())
    text = re.sub(r"call void @llvm\.prefetch\.p0\((ptr \S+),.*\)", called, printed.text)
    run_native(replace(printed, text=text), drawn(module), host())
    return found


@pytest.mark.parametrize("tiles", [1, 2])
@pytest.mark.parametrize("rows", [3, 4, 11])
@pytest.mark.parametrize("ahead", [1, 3, 99])
@pytest.mark.parametrize(("dtype", "size"), [(DType.F32, 4), (DType.BF16, 2)])
def test_along_the_rows_each_line_is_fetched_and_behind_their_end_the_next_ones(
    tiles: int, rows: int, ahead: int, dtype: DType, size: int
) -> None:
    """Whatever a block begins with is not; and of rows below the last ones it asks in vain."""
    depth, step, wide = 24, 8, 2 * host().width // 4
    columns, width = 12 * wide, 12 * wide // tiles
    module = product(rows, depth, columns, dtype)
    (kernel,) = module.kernels
    along = next(one.name for one in kernel.indices if one.size == columns)
    wishes = RegisterRequest(
        4, 2, prefetch_distance=ahead, prefetch_to_l1=True, prefetch_along_lanes=True
    )
    own = Schedule({along: width, down(kernel): step}, down(kernel), wishes)
    lines = {address // LINE for address in fetched(module, own)}

    on = min(ahead * wide, width)
    first = 0 if on < width else step  # where the whole tile is behind, it goes on below
    wanted = {
        (row * columns + begin + at) * size // LINE
        for begin in range(0, columns, width)
        for row in range(first, depth + step)
        for at in range(width)
        if (row >= step or at >= on) and (row < depth or at < on)
    }
    # The program runs twice, with its arrays at two places.
    moved = {min(lines) - min(wanted), max(lines) - max(wanted)}
    assert lines == {line + begin for line in wanted for begin in moved}


def test_results_are_the_same_wherever_it_is_fetched() -> None:
    """Also where tiles are not whole."""
    module = product(11, 70, 300)
    (kernel,) = module.kernels
    for rows, vectors, ahead in ((8, 2, 4), (6, 1, 1), (16, 1, 50)):
        wishes = RegisterRequest(
            rows, vectors, prefetch_distance=ahead, prefetch_to_l1=True, prefetch_along_lanes=True
        )
        own = Schedule({"j": 128, down(kernel): 16}, down(kernel), wishes)
        assert_right(module, schedules={kernel.name: own}, machines=list(MACHINES.values()))


def test_a_block_that_goes_down_a_large_matrix_fetches_along_its_rows() -> None:
    """Or from further down, if trials say so; what is there already, or elsewhere, never does."""
    (kernel,) = product(16, 2048, host().l2 // 4096).kernels
    own = schedule_space(kernel, host(), 2)
    down_rows = 0
    for one in ranked_choices(own):
        schedule, wishes = one.schedule, one.schedule.registers
        goes = schedule.serial == down(kernel) and not schedule.panels and not wishes.matrix
        assert wishes.prefetch_along_lanes == goes
        assert wishes.prefetch_to_l1 == goes
        others = [each.schedule.registers for each in neighbouring_choices(own, one.point)]
        below = [
            each for each in others if not each.prefetch_along_lanes and each.prefetch_distance
        ]
        if goes:
            down_rows += 1
            assert any(
                each.prefetch_distance == schedule.tiles[down(kernel)] // 2 for each in below
            )
        assert schedule.tiles.get(down(kernel)) != 8 or goes
    assert down_rows
    small = product(16, 2048, 128).kernels[0]
    found = choices(small, host(), 2)
    assert not any(one.registers.prefetch_along_lanes for one in found)
    assert all(one.tiles.get(down(small), 16) >= 16 for one in found)
    assert not any(
        one.registers.prefetch_along_lanes
        for one in choices(kernel, host(), 2, ["W"])
        if one.layouts
    )


def test_no_schedule_lies_beside_another_twice() -> None:
    """Such as one that fetches nothing, where less than what is usual would be nothing, too."""
    (kernel,) = product(1, 2048, host().l2 // 4096).kernels
    own = schedule_space(kernel, host(), 2, ["W"])
    for one in ranked_choices(own):
        around = [repr(each.schedule) for each in neighbouring_choices(own, one.point)]
        assert len({*around}) == len(around)
