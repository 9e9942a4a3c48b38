"""Which of two schedules should take less time."""

from __future__ import annotations

from dataclasses import replace

from running import program

from aiosearch.codegen.cpu.packed import Layout
from aiosearch.codegen.cpu.predicting import Predictor
from aiosearch.codegen.cpu.roles import roles
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.cpu.shape import Wishes
from aiosearch.codegen.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.tensor import DType, tensor

BLOCKS = Schedule({"j": 512}, wishes=Wishes(6, 4))


def seconds(own: Schedule, threads: int = 2, rows: int = 48, dtype: DType = DType.F32) -> float:
    """Of a product of matrices."""
    x, w = tensor("X", dtype, (rows, 1024)), tensor("W", dtype, (1024, 4096))
    (kernel,) = lower(program(x @ w)).kernels
    assert [one.size for one in kernel.indices] == [rows, 4096, 1024]
    return Predictor(kernel, roles(kernel, host()), host(), threads).seconds(own)


def test_more_threads_take_less_time() -> None:
    """As long as there are blocks for them."""
    assert seconds(BLOCKS, 4) < seconds(BLOCKS, 2) < seconds(BLOCKS, 1)
    whole = replace(BLOCKS, tiles={})
    assert seconds(whole, 4) == seconds(whole, 1)


def test_more_sums_in_registers_take_less_time() -> None:
    """What is loaded serves more of them."""
    assert seconds(BLOCKS) < seconds(replace(BLOCKS, wishes=Wishes(1, 1)))


def test_packed_half_types_take_less_time() -> None:
    """Pairs that lie together need not be brought together."""
    packed = replace(BLOCKS, layouts={"W": Layout(0, 1, 4 * host().width // 4, host().bf16_dot)})
    assert seconds(packed, dtype=DType.BF16) < seconds(BLOCKS, dtype=DType.BF16)


def test_more_work_takes_more_time() -> None:
    """Of the same kind."""
    assert seconds(BLOCKS, rows=24) < seconds(BLOCKS, rows=48) < seconds(BLOCKS, rows=192)


def test_a_few_long_blocks_take_hardly_longer_than_many_short_ones() -> None:
    """A thread that begins late is late by some microseconds, however long its blocks are."""
    few, many = (seconds(replace(BLOCKS, tiles={"j": tile}), rows=960) for tile in (2048, 128))
    assert few < 1.06 * many
