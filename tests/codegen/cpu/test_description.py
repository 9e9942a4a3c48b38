"""Schedules in words."""

from __future__ import annotations

import pytest
from testkit.kernels.lowered import norm

from aiosearch.codegen.cpu.description import describe_schedule
from aiosearch.codegen.cpu.packing import PackedLayout
from aiosearch.codegen.cpu.register_layout import RegisterRequest
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.lower.lowering import lower
from aiosearch.tensor import Program, tensor

(NORM,) = lower(norm()).kernels


def test_the_plainest_schedule_is_one_block() -> None:
    assert (
        describe_schedule(NORM, Schedule())
        == "norm\n  one block\n  sums in registers, 2 steps a turn"
    )


def test_every_choice_has_its_line() -> None:
    """Those along indices that are not cut have none."""
    schedule = Schedule(
        {"i": 4, "j": 16, "k": 32},
        "k",
        RegisterRequest(1, 2, 4, 8, prefetch_to_l1=True),
        {"W": PackedLayout(0, 1, 16, True, coded=True)},
        ("X",),
        panels={"V": PackedLayout(0, 1, 32, False)},
        keeps=True,
        width=32,
        wide=True,
    )
    assert describe_schedule(NORM, schedule).splitlines() == [
        "norm",
        "  2 blocks, each 16 of j's 32",
        "  goes along k by 32, keeping what it needs again",
        "  1 row by 2 vectors of sums in registers, 4 steps a turn",
        "  fetches 16 rows ahead, into the first cache",
        "  vectors of 32 bytes",
        "  W packed in panels of 16 along axis 1, rows in pairs, twelve bits for sixteen",
        "  a block copies its tile of X",
        "  copies of halves, and what a block makes for products of them, are f32",
        "  a block lays out V packed in panels of 32 along axis 1",
    ]


def test_sums_of_a_matrix_unit() -> None:
    line = "  16 rows by 4 vectors of sums in a matrix unit, 2 steps a turn"
    assert (
        line
        in describe_schedule(
            NORM, Schedule(registers=RegisterRequest(16, 4, 2, matrix=True))
        ).splitlines()
    )


def test_what_sums_nothing_keeps_no_sums() -> None:
    x = tensor("x", "f32", (8, 8))
    (kernel,) = lower(Program("twice", (x,), (x + x,))).kernels
    assert describe_schedule(kernel, Schedule({"i": 2})) == "twice\n  4 blocks, each 2 of i's 8"


@pytest.mark.parametrize(("ahead", "said"), [(1, "1 block"), (4, "4 blocks")])
def test_blocks_of_registers_along_the_rows(ahead: int, said: str) -> None:
    wishes = RegisterRequest(
        8, 2, prefetch_distance=ahead, prefetch_to_l1=True, prefetch_along_lanes=True
    )
    line = f"  fetches {said} ahead, into the first cache"
    assert line in describe_schedule(NORM, Schedule(registers=wishes)).splitlines()
