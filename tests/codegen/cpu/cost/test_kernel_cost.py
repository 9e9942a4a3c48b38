"""Which of two schedules should take less time."""

from __future__ import annotations

from dataclasses import replace

from testkit.kernels.native_run import program

from aiosearch.codegen.cpu.cost.kernel_cost import KernelCost
from aiosearch.codegen.cpu.index_roles import index_roles
from aiosearch.codegen.cpu.packing import PackedLayout
from aiosearch.codegen.cpu.register_layout import RegisterRequest
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.tensor import DType, tensor

BLOCKS = Schedule({"j": 512}, registers=RegisterRequest(6, 4))


def seconds(own: Schedule, threads: int = 2, rows: int = 48, dtype: DType = DType.F32) -> float:
    """Of a product of matrices."""
    x, w = tensor("X", dtype, (rows, 1024)), tensor("W", dtype, (1024, 4096))
    (kernel,) = lower(program(x @ w)).kernels
    assert [one.size for one in kernel.indices] == [rows, 4096, 1024]
    return KernelCost(kernel, index_roles(kernel, host()), host(), threads).seconds(own)


def test_more_threads_take_less_time() -> None:
    """As long as there are blocks for them."""
    assert seconds(BLOCKS, 4) < seconds(BLOCKS, 2) < seconds(BLOCKS, 1)
    whole = replace(BLOCKS, tiles={})
    assert seconds(whole, 4) == seconds(whole, 1)


def test_more_sums_in_registers_take_less_time() -> None:
    """What is loaded serves more of them."""
    assert seconds(BLOCKS) < seconds(replace(BLOCKS, registers=RegisterRequest(1, 1)))


def test_packed_half_types_take_less_time() -> None:
    """Pairs that lie together need not be brought together."""
    packed = replace(
        BLOCKS, layouts={"W": PackedLayout(0, 1, 4 * host().width // 4, host().bf16_dot)}
    )
    assert seconds(packed, dtype=DType.BF16) < seconds(BLOCKS, dtype=DType.BF16)


def test_more_work_takes_more_time() -> None:
    """Of the same kind."""
    assert seconds(BLOCKS, rows=24) < seconds(BLOCKS, rows=48) < seconds(BLOCKS, rows=192)


def test_a_few_long_blocks_take_hardly_longer_than_many_short_ones() -> None:
    """A thread that begins late is late by some microseconds, however long its blocks are."""
    few, many = (seconds(replace(BLOCKS, tiles={"j": tile}), rows=960) for tile in (2048, 128))
    assert few < 1.06 * many


def in_panels(vectors: int, panels: int, length: int = 1024) -> float:
    """Of eight rows in registers, where a block has so many panels and sums such pieces."""
    width = vectors * host().width // 4
    return seconds(
        Schedule(
            {"j": panels * width, "k": length},
            "k",
            RegisterRequest(8, vectors),
            {"W": PackedLayout(0, 1, width, pairs=False)},
        ),
        rows=8,
    )


def test_pieces_of_a_sum_read_on_where_a_block_has_one_panel() -> None:
    """Where it has several, each piece waits for memory anew."""
    alone, several = (in_panels(2, panels, 64) / in_panels(2, panels) for panels in (1, 4))
    assert alone < several


def test_what_streams_by_does_not_drive_out_what_is_read_again() -> None:
    """All of W is read once and finds no room; the rows of X stay."""
    columns = 16 * host().l2 // (4 * 1024)
    x, w = tensor("X", DType.F32, (8, 1024)), tensor("W", DType.F32, (1024, columns))
    (kernel,) = lower(program(x @ w)).kernels
    predictor = KernelCost(kernel, index_roles(kernel, host()), host(), 2)
    width = 2 * host().width // 4
    few, many = (
        predictor.seconds(
            Schedule(
                {"j": tile},
                registers=RegisterRequest(8, 2),
                layouts={"W": PackedLayout(0, 1, width, pairs=False)},
            )
        )
        for tile in (columns // 8, width)
    )
    assert many < 1.02 * few


def as_it_lies(
    columns: int, length: int, own: RegisterRequest = BLOCKS.registers, laid: bool = False
) -> float:
    """Of eight rows and a tile of so many columns and rows of W, which a block may lay out."""
    x, w = tensor("X", DType.F32, (8, 1024)), tensor("W", DType.F32, (1024, host().l2 // 256))
    (kernel,) = lower(program(x @ w)).kernels
    panels = {"W": PackedLayout(0, 1, own.vectors * host().width // 4, pairs=False)} if laid else {}
    found = Schedule({"j": columns, "k": length}, "k", own, panels=panels)
    return KernelCost(kernel, index_roles(kernel, host()), host(), 2).seconds(found)


def test_rows_of_memory_are_read_on_where_they_are_few_and_wide() -> None:
    """Of many, or of narrow pieces, each line is waited for."""
    wide, narrow = host().l2 // 1024, host().width
    assert as_it_lies(wide, 16) < as_it_lies(wide, 64) < as_it_lies(wide, 512)
    assert as_it_lies(wide, 16) < as_it_lies(narrow, 16)


def test_what_a_cache_holds_may_be_read_in_any_order() -> None:
    """Long sums cost less there than pieces of them."""
    rows = host().l2 // 2 // (4 * 512)
    x, w = tensor("X", DType.F32, (8, rows)), tensor("W", DType.F32, (rows, 512))
    (kernel,) = lower(program(x @ w)).kernels
    predictor = KernelCost(kernel, index_roles(kernel, host()), host(), 1)
    short, long = (
        predictor.seconds(Schedule({"k": length}, "k", RegisterRequest(4, 4)))
        for length in (16, 512)
    )
    assert long < short


def test_wide_tiles_take_less_time_to_lay_out() -> None:
    """Each row of a tile lies somewhere else in memory."""
    wishes = RegisterRequest(8, 2)
    assert as_it_lies(1024, 128, wishes, laid=True) < as_it_lies(32, 128, wishes, laid=True)
