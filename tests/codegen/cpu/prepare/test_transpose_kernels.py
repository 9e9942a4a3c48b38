"""Rows that products share, laid side by side before they begin."""

from __future__ import annotations

from dataclasses import replace

import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.native_run import MACHINES, program

from aiosearch.codegen.cpu.emit.kernel import print_module
from aiosearch.codegen.cpu.packing import PackedLayout
from aiosearch.codegen.cpu.prepare.transpose_kernels import with_transposes
from aiosearch.codegen.cpu.register_layout import RegisterRequest
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.cpu.space.choices import choices, schedule_space
from aiosearch.codegen.ir import Module
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import CpuMachine, host
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.codegen.schedule.space import neighbouring_choices, ranked_choices
from aiosearch.tensor import DType, Term, apply, tensor

X = tensor("X", DType.F32, (8, 512))


def weights(name: str = "W") -> Term:
    return tensor(name, DType.F32, (512, 48))


def turning(module: Module, *names: str, rows: int = 8) -> dict[str, Schedule]:
    """Of each kernel that reads some of these buffers."""
    return {
        kernel.name: Schedule(
            registers=RegisterRequest(rows, 1),
            transposed={
                one.name: PackedLayout(1, 0, rows, False)
                for one in kernel.inputs
                if one.name in names
            },
        )
        for kernel in module.kernels
    }


def test_an_input_is_turned_once_for_all_its_products() -> None:
    """By a kernel before them; whoever else reads it does so as before."""
    module = lower(program(X @ weights("W"), X @ weights("V"), X + X))
    found, schedules = with_transposes(module, turning(module, "X"))
    assert len(found.kernels) == len(module.kernels) + 1
    readers = [one for one in found.kernels if any("turned" in each.name for each in one.inputs)]
    assert len(readers) == 2
    assert not any(each.name == "X" for one in readers for each in one.inputs)
    assert not any(one.transposed for one in schedules.values())
    assert_right(module, schedules=turning(module, "X"), machines=[host()])


def test_each_way_to_turn_it_is_one() -> None:
    """Products that have other numbers of rows in registers want other panels."""
    module = lower(program(X @ weights("W"), X @ weights("V")))
    first, second = module.kernels
    own = {
        first.name: turning(module, "X")[first.name],
        second.name: turning(module, "X", rows=4)[second.name],
    }
    found, _ = with_transposes(module, own)
    assert len(found.kernels) == 4
    assert_right(module, schedules=own, machines=[host()])


def test_what_kernels_pass_on_is_turned_on_the_way() -> None:
    """Behind the kernel that fills it, also where that is an output of the program."""
    middle = apply("tanh", X)
    for outputs in ([middle @ weights()], [middle, middle @ weights()]):
        module = lower(program(*outputs))
        (buffer,) = module.kernels[0].outputs
        own = turning(module, buffer.name)
        assert len(print_module(module, own, host()).phases) == len(module.kernels) + 1
        assert_right(module, schedules=own, machines=[host()])


def test_others_than_products_read_it_as_it_is() -> None:
    """In one kernel: sums of squares, and the product."""
    squares = apply("reshape", apply("sum", X * X, axes=(1,)), shape=(8, 1))
    wide = tensor("W", DType.F32, (512, 1024))
    module = fuse_kernels(lower(program((X @ wide) / apply("sqrt", squares))))
    assert len(module.kernels) == 1
    own = turning(module, "X")
    found, _ = with_transposes(module, own)
    assert {one.name for one in found.kernels[-1].inputs} == {"X", "W", "X.turned0"}
    assert_right(module, schedules=own, machines=[host()])


def test_ways_that_differ_in_pairs_or_columns_are_two() -> None:
    """Of one input, with as many rows side by side."""
    x = tensor("X", DType.BF16, (8, 512))
    wide = apply("cast", x, dtype=DType.F32) @ weights("V")
    module = lower(program(x @ tensor("W", DType.BF16, (512, 48)), wide))
    own = turning(module, "X")
    pairs = [host().bf16_dot, False]
    for kernel, one in zip(module.kernels, pairs, strict=True):
        turned = {"X": PackedLayout(1, 0, 8, one)}
        own[kernel.name] = replace(own[kernel.name], transposed=turned)
    found, _ = with_transposes(module, own)
    assert len(found.kernels) == 3 + host().bf16_dot
    assert_right(module, schedules=own, machines=[host()])


@pytest.mark.parametrize("begin", [0, 3])
def test_what_is_read_in_part_is_read_as_it_is(begin: int) -> None:
    """A copy is of all of it."""
    x = apply("slice", tensor("X", DType.F32, (8, 45)), axis=1, start=begin, stop=begin + 40)
    module = fuse_kernels(lower(program(x @ tensor("W", DType.F32, (40, 48)))))
    found, _ = with_transposes(module, turning(module, "X"))
    assert not any("turned" in one.name for one in found.kernels[-1].inputs)
    assert_right(module, schedules=turning(module, "X"), machines=[host()])


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("constant", [(), ("W",), ("X",)], ids=["none", "W", "X"])
def test_all_that_is_proposed_is_right(machine: CpuMachine, constant: tuple[str, ...]) -> None:
    """In ways that trials come to, too."""
    module = lower(
        program(tensor("X", DType.F32, (1, 16, 96)) @ tensor("W", DType.F32, (1, 96, 40)))
    )
    (kernel,) = module.kernels
    own = schedule_space(kernel, machine, 2, constant)
    first = [one for one in ranked_choices(own) if one.schedule.transposed][:60:20]
    assert first
    near = [
        each
        for one in first
        for each in neighbouring_choices(own, one.point)
        if each.schedule.transposed
    ]
    for one in (*first, *near[::12]):
        assert_right(module, schedules={kernel.name: one.schedule}, machines=[machine])


def test_what_lies_otherwise_already_is_not_turned() -> None:
    """Weights on the left that were packed along their rows."""
    w, x = tensor("W", DType.F32, (64, 512)), tensor("X", DType.F32, (512, 48))
    (kernel,) = lower(program(w @ x)).kernels
    found = choices(kernel, host(), 2, ["W"])
    assert any(one.transposed for one in found)
    assert any(one.layouts for one in found)
    assert not any(one.transposed.keys() & {*one.layouts, *one.panels} for one in found)


def test_what_another_stage_packs_is_cut_into_whole_vectors() -> None:
    """Of two products with an index in common, whose lanes lie along different ones."""
    x, w = tensor("X", DType.F32, (32, 512)), tensor("W", DType.F32, (512, 4096))
    c, v = tensor("C", DType.F32, (32, 512)), tensor("v", DType.F32, (512,))
    scales = apply("reshape", c @ apply("reshape", v, shape=(512, 1)), shape=(32, 1))
    module = fuse_kernels(lower(program((x @ w) * scales)))
    (kernel,) = module.kernels
    found = [one for one in choices(kernel, host(), 2, ["C", "W"]) if "C" in one.layouts]
    by_tiles = {tuple(one.tiles.items()): one for one in found}
    for one in [*by_tiles.values()][::20]:
        print_module(module, {kernel.name: one}, host())
    row = kernel.indices[0].name
    smallest = min(found, key=lambda one: one.tiles.get(row, 32))
    print_module(module, {kernel.name: smallest}, host())


@pytest.mark.skipif(not host().bf16_dot, reason="there is nothing to code")
def test_what_is_coded_is_read_along_its_columns() -> None:
    """Also where the result lies along the rows, and where another stage wants floats."""
    x, w = tensor("X", DType.BF16, (24, 512)), tensor("W", DType.BF16, (512, 4096))
    wide = apply("cast", x, dtype=DType.F32) @ tensor("V", DType.F32, (512, 4096))
    for result in (
        apply("transpose", x @ w, axes=(1, 0)),
        wide + apply("cast", x @ w, dtype="f32"),
    ):
        module = fuse_kernels(lower(program(result)))
        for kernel in module.kernels:
            coded = [
                one
                for one in choices(kernel, host(), 2, ["W"])
                if any(each.coded for each in one.layouts.values())
            ]
            for one in coded[::60]:
                print_module(module, {kernel.name: one}, host())


def test_names_are_free() -> None:
    """Whatever inputs are called."""
    y = tensor("X.turned0", DType.F32, (8, 512))
    module = lower(program(X @ weights(), y + y))
    found, _ = with_transposes(module, turning(module, "X"))
    assert "X.turned1" in {one.name for one in found.kernels}
    assert_right(module, schedules=turning(module, "X"), machines=[host()])


def test_lanes_never_lie_along_what_is_side_by_side() -> None:
    """Also where they would, because the result lies so."""
    module = lower(program(apply("transpose", X @ weights(), axes=(1, 0))))
    assert_right(module, schedules=turning(module, "X"), machines=[host()])


@pytest.mark.parametrize(
    ("result", "turns"),
    [
        (X @ weights(), True),
        (tensor("X", DType.F32, (3, 8, 512)) @ tensor("W", DType.F32, (3, 512, 48)), True),
        (tensor("X", DType.F32, (1, 8, 512)) @ tensor("W", DType.F32, (1, 512, 48)), True),
        (tensor("X", DType.F32, (1, 512)) @ weights(), False),
        (apply("transpose", tensor("X", DType.F32, (512, 8)), axes=(1, 0)) @ weights(), False),
        (apply("sum", X, axes=(1,)), False),
        (X @ apply("transpose", X, axes=(1, 0)), False),
    ],
    ids=["rows", "stacks", "a stack of one", "one row", "side by side", "no product", "by itself"],
)
def test_it_is_proposed_where_it_can_be(result: Term, turns: bool) -> None:
    module = lower(program(result))
    kernel = module.kernels[-1]
    found = choices(kernel, host(), 2)
    assert any(one.transposed for one in found) == turns
