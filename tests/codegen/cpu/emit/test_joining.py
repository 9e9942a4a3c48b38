"""Kernels that run as one phase: which may, and that they compute the same."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from testkit.kernels.native_run import MACHINES, drawn, program, run
from testkit.kernels.random_schedules import drawn_schedules
from testkit.programs.random_programs import ALONG_SHORT_AXES, random_program

from aiosearch.codegen.cpu.emit.joining import BlockGrid, joined_phases
from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.schedule import Schedule, blocked
from aiosearch.codegen.ir import Module
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.tensor import DType, Program, apply, tensor


def normed_products(rows: int = 40) -> Program:
    """Rows are normed, multiplied twice, and divided by their sums: no row needs another."""
    x = tensor("X", DType.F32, (rows, 24))
    scaled = x / apply("sum", x * x, axes=(1,), keep=True)
    hidden = scaled @ tensor("W", DType.F32, (24, 48))
    return program(apply("exp", hidden) @ tensor("V", DType.F32, (48, 24)))


def grids_of(module: Module, tiles: dict[str, int]) -> list[BlockGrid]:
    schedule = Schedule(tiles)
    return [
        BlockGrid(kernel, tuple((index, schedule.tile(index)) for index in blocked(kernel)))
        for kernel in module.kernels
    ]


def test_kernels_that_need_their_own_rows_alone_are_one_phase() -> None:
    """A chain of products by weights is one phase, in groups of whole tiles of each kernel."""
    module = lower(normed_products())
    assert len(module.kernels) > 1
    (phase,) = joined_phases(grids_of(module, {"i": 8}), 2)
    assert (phase.tile, phase.groups, len(phase.rows)) == (8, 5, len(module.kernels))


def test_who_needs_other_rows_begins_a_phase() -> None:
    """Every row of x @ x.T needs all rows of x."""
    x, w = tensor("X", DType.F32, (32, 16)), tensor("W", DType.F32, (16, 16))
    y = apply("exp", x @ w)
    module = lower(program(y @ apply("transpose", y, axes=(1, 0))))
    phases = joined_phases(grids_of(module, {"i": 4, "j": 4}), 2)
    assert [phase.first for phase in phases] == list(range(len(module.kernels)))


def test_too_few_groups_join_nothing() -> None:
    """Rows that are not cut would leave all threads but one without work."""
    module = lower(normed_products())
    phases = joined_phases(grids_of(module, {"i": 40, "j": 8}), 2)
    assert not any(phase.rows for phase in phases)


def test_what_is_packed_is_not_passed_on_within_a_phase() -> None:
    """A panel holds elements of several rows."""
    module = lower(normed_products())
    passed = {buffer.name for kernel in module.kernels for buffer in kernel.outputs}
    phases = joined_phases(grids_of(module, {"i": 8}), 2, passed)
    assert not any(phase.rows for phase in phases)


@pytest.mark.parametrize("tiles", [{"i": 8}, {"i": 6, "j": 16}, {"i": 1, "j": 8}, {"i": 7}])
@pytest.mark.parametrize("fastest", [None, "i"])
def test_joined_kernels_compute_the_same(tiles: dict[str, int], fastest: str | None) -> None:
    """Whatever the tiles, also where rows are no whole number of them, or change fastest."""
    module = lower(normed_products())
    ways = {
        kernel.name: Schedule(
            {**tiles, "i": tiles["i"] * (1 + number % 2)},
            fastest=fastest if fastest in {index.name for index in blocked(kernel)} else None,
        )
        for number, kernel in enumerate(module.kernels)
    }
    joined = print_module(module, ways, host(), joined=2)
    apart = print_module(module, ways, host())
    assert len(joined.phases) < len(apart.phases)
    assert joined.phases[0].blocks == math.ceil(40 / math.lcm(tiles["i"], 2 * tiles["i"]))
    inputs = drawn(module)
    for ours, theirs in zip(
        run(module, inputs, ways, joined=2), run(module, inputs, ways), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_what_reads_nothing_parts_no_others() -> None:
    """A kernel that fills a constant is moved to the beginning."""
    x = tensor("X", DType.F32, (40, 24))
    y = (x @ tensor("W", DType.F32, (24, 24))) * 0.5
    module = lower(program(apply("exp", y) @ tensor("V", DType.F32, (24, 24))))
    ways = {kernel.name: Schedule({"i": 8}) for kernel in module.kernels}
    native = print_module(module, ways, host(), joined=2)
    idle = sum(not kernel.inputs for kernel in module.kernels)
    assert len(native.phases) == 1 + idle


def test_random_programs_by_random_schedules() -> None:
    """Joined and apart give the same bytes, in whatever order groups run."""
    joins = 0
    for seed in range(16):
        unwanted = ALONG_SHORT_AXES
        drawn_program = random_program(seed, sizes=(4, 16, 33, 40), most=20_000, without=unwanted)
        module, machine = lower(drawn_program), list(MACHINES.values())[seed % len(MACHINES)]
        ways, inputs = drawn_schedules(module, Random(seed), machine), drawn(module, seed)
        joins += len(print_module(module, ways, machine, joined=1).phases) < len(
            print_module(module, ways, machine).phases
        )
        both = (run(module, inputs, ways, machine, joined=joined) for joined in (1, 0))
        for ours, theirs in zip(*both, strict=True):
            assert ours.tobytes() == theirs.tobytes(), f"seed {seed}"
    assert joins
