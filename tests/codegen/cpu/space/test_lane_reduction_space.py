"""Lanes along what is folded; and that every choice of a schedule changes the code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from random import Random

import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.native_run import MACHINES, program

from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.register_layout import RegisterRequest
from aiosearch.codegen.cpu.schedule import Schedule, blocked
from aiosearch.codegen.cpu.space.choices import schedule_space
from aiosearch.codegen.ir import Module, TileKernel
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import CpuMachine, host
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.codegen.schedule.space import (
    ScheduleChoice,
    ScheduleSpace,
    neighbouring_choices,
    ranked_choices,
)
from aiosearch.tensor import DType, Term, apply, tensor
from aiosearch.tensor.programs import builtin

BOTH = pytest.mark.parametrize("machine", [MACHINES["host"], MACHINES["portable"]])


def in_rows(rows: int, inner: int, columns: int, dtype: DType = DType.F32) -> Module:
    """A product with weights as PyTorch has them."""
    x, w = tensor("X", dtype, (rows, inner)), tensor("W", dtype, (columns, inner))
    return lower(program(x @ apply("transpose", w, axes=(1, 0))))


def along(found: list[ScheduleChoice[Schedule]]) -> list[ScheduleChoice[Schedule]]:
    return [one for one in found if one.schedule.registers.lanes is not None]


@BOTH
@pytest.mark.parametrize("lanes", [(1, 1), (2, 4), (8, 1), (3, 2)])
@pytest.mark.parametrize("chains", [0, 1, 2, 8])
def test_any_number_of_sums_gives_the_same(
    lanes: tuple[int, int], chains: int, machine: CpuMachine
) -> None:
    """Also of rows, columns and lanes that are no multiple of it."""
    own = Schedule(registers=RegisterRequest(lanes=lanes, chains=chains))
    assert_right(in_rows(7, 83, 11), schedules={"program": own}, machines=[machine])


@pytest.mark.parametrize("rows", [1, 8])
def test_rows_columns_and_chains_are_choices(rows: int) -> None:
    """As many as registers hold, and no more rows or columns than there are."""
    machine = host()
    (kernel,) = in_rows(rows, 4096, 512).kernels
    own = schedule_space(kernel, machine, 2)
    first = along(ranked_choices(own))[0]
    near = along(neighbouring_choices(own, first.point))
    kinds = {one.schedule.registers.lanes: one.schedule.registers for one in near}
    assert len(kinds) > 3
    many = {one.schedule.registers.chains for one in near}
    assert (len(many) > 1) == (rows == 1), "of sixteen sums, registers hold no second chain"
    for high, wide in filter(None, kinds):
        assert high * wide + wide + 1 <= machine.registers
        assert wide <= rows
    (changed,) = {one for one in kinds.values() if one.lanes == (2, 1)}
    schedule = replace(first.schedule, registers=changed)
    assert_right(in_rows(rows, 512, 64), schedules={kernel.name: schedule}, machines=[machine])


def test_a_block_has_several_columns_for_what_it_reads() -> None:
    """Each row of the weights would come from memory once for each of them."""
    (kernel,) = in_rows(8, 4096, 4096).kernels
    (stage,) = kernel.stages
    own = schedule_space(kernel, host(), 2)
    for one in along(ranked_choices(own)):
        assert [one.schedule.tile(each) for each in stage.free if each.size == 8] == [8]


def kernels() -> Iterator[tuple[str, TileKernel, list[str]]]:
    """With the inputs that are constant."""
    for dtype in (DType.F32, DType.BF16):
        x, w = tensor("X", dtype, (8, 512)), tensor("W", dtype, (512, 512))
        turned = apply("transpose", w, axes=(1, 0))
        scale = apply("reshape", apply("sum", x * x, axes=(1,)), shape=(8, 1))
        some: dict[str, Term] = {
            "product": x @ w,
            "in rows": x @ turned,
            "many in rows": tensor("X", dtype, (64, 512)) @ turned,
            "many in few rows": tensor("X", dtype, (64, 512))
            @ apply("transpose", tensor("W", dtype, (16, 512)), axes=(1, 0)),
            "far": tensor("X", dtype, (8, 4096)) @ tensor("W", dtype, (4096, 2048)),
            "rows": apply("sum", x * x, axes=(1,)),
            "columns": apply("sum", x * x, axes=(0,)),
            "map": apply("exp", x),
            "norm": (x * scale) @ turned,
            "narrow norm": (x * scale) @ tensor("W", dtype, (512, 24)),
        }
        programs = {name: program(one) for name, one in some.items()}
        for name in ("attention", "moe_gate", "conv_bias_relu"):
            programs[name] = builtin(name, dtype)
        for name, one in programs.items():
            for kernel in fuse_kernels(lower(one)).kernels:
                for constant in {(), ("W",) if "W" in map(_name, kernel.inputs) else ()}:
                    yield f"{name} {dtype} {constant}", kernel, list(constant)


def _name(buffer: object) -> str:
    return str(getattr(buffer, "name", ""))


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_there_are_choices_for_any_number_of_rows_and_columns(
    dtype: DType, machine: CpuMachine
) -> None:
    """And blocks for both threads, where there is more than one vector's columns."""
    for rows, columns in product((1, 3, 16, 17, 64), (1, 5, 11, 16, 17, 64)):
        (kernel,) = in_rows(rows, 512, columns, dtype).kernels
        found = ranked_choices(schedule_space(kernel, machine, 2))
        assert found, f"{rows} rows, {columns} columns"
        blocks = (prod(map(one.schedule.count, blocked(kernel))) for one in found)
        assert columns <= 16 or max(blocks) > 1, f"{rows} rows, {columns} columns"


@BOTH
def test_every_choice_changes_the_code(machine: CpuMachine) -> None:
    """One that does not is a trial of what was tried, and a promise that is not kept."""
    random = Random(0)
    for name, kernel, constant in kernels():
        own = schedule_space(kernel, machine, 2, constant)
        found = ranked_choices(own)
        assert found, name
        _assert_distinct(name, kernel, own, random.choice(found), machine)


def _assert_distinct(
    name: str,
    kernel: TileKernel,
    own: ScheduleSpace[Schedule],
    first: ScheduleChoice[Schedule],
    machine: CpuMachine,
) -> None:
    module = Module(kernel.name, kernel.inputs, kernel.outputs, (kernel,))
    texts: dict[str, ScheduleChoice[Schedule]] = {}
    for one in [first, *neighbouring_choices(own, first.point)]:
        text = print_module(module, {kernel.name: one.schedule}, machine).text
        assert text not in texts, f"{name}, {kernel.name}: {texts[text].schedule} is {one.schedule}"
        texts[text] = one
