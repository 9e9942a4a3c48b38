"""Into how many parts folds may be split, and along which index."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from aiosearch.codegen import ir
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import CannotPrint
from aiosearch.codegen.pallas.space.split_space import SplitSpace
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.codegen.schedule.space import choice_at, neighbouring_choices, ranked_choices
from aiosearch.devices import Device, device
from aiosearch.tensor import DType, Program, apply, tensor
from aiosearch.tensor.programs import builtin

H200 = device("H200")


def _product(rows: int, summed: int, columns: int) -> ir.TileKernel:
    a, b = tensor("A", DType.BF16, [rows, summed]), tensor("B", DType.BF16, [summed, columns])
    (kernel,) = lower(Program("product", (a, b), (a @ b,))).kernels
    return kernel


def _parts(kernel: ir.TileKernel, gpu: Device = H200) -> list[dict[str, int]]:
    """Of each index, in all legal ways, the best predicted first."""
    space = SplitSpace(kernel, gpu)
    names = [one.name for one in space.parameters]
    values = [one.values for one in space.parameters]
    return [
        dict(zip(names, (own[at] for own, at in zip(values, one.point, strict=True)), strict=True))
        for one in ranked_choices(space)
    ]


def test_the_parts_of_a_fold_are_a_choice_of_which_one_is_the_kernel_as_it_is() -> None:
    kernel = _product(8, 4096, 256)
    space = SplitSpace(kernel, H200)
    (parameter,) = space.parameters
    assert (parameter.name, *parameter.values[:3]) == ("k", 1, 2, 4)
    found = ranked_choices(space)
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)
    for one in found:
        kernels = [own.kernel for own in one.schedule]
        assert (kernels == [kernel]) == (one.point == (0,))
        assert one.seconds == sum(own.best.seconds for own in one.schedule)
        assert choice_at(space, one.point) == one
    assert [one.point for one in neighbouring_choices(space, (0,))] == [
        one.point for one in found if any(one.point)
    ]


def test_units_that_were_idle_get_a_block_and_none_gets_many() -> None:
    kernel = _product(8, 4096, 256)
    (whole,) = choice_at(SplitSpace(kernel, H200), (0,)).schedule  # type: ignore[union-attr]
    blocks = whole.demand(whole.best.schedule).blocks
    assert blocks == 16
    assert sorted(one["k"] for one in _parts(kernel)) == [1, 16, 32]


def test_a_device_that_has_blocks_enough_gets_few_parts() -> None:
    (kernel,) = fuse_kernels(lower(builtin("gated_mlp", DType.BF16, row=8))).kernels
    assert sorted(one["k"] for one in _parts(kernel)) == [1, 2, 4]


def test_parts_are_equal() -> None:
    assert sorted(one["k"] for one in _parts(_product(8, 16 * 33, 256))) == [1, 16]


def test_one_index_at_most_is_split() -> None:
    x = tensor("X", DType.BF16, [1, 128, 128])
    (kernel,) = lower(Program("both", (x,), (apply("sum", x, axes=(1, 2)),))).kernels
    found = _parts(kernel, replace(H200, units=4))
    assert {name for one in found for name, parts in one.items() if parts > 1} == {"i", "j"}
    assert all(1 in one.values() for one in found)


def test_what_a_kernel_needs_along_an_index_is_not_split_along_it() -> None:
    kernel = lower(builtin("moe_gate", DType.F32, row=2, feature=64, expert=4096)).kernels[-1]
    assert any(one.values[1:] for one in SplitSpace(kernel, H200).parameters)
    assert all({*one.values()} == {1} for one in _parts(kernel))


def test_parts_take_no_more_bytes_than_the_inputs() -> None:
    """As these would of the one product, and do not of the other, which reads more."""
    assert _parts(_product(64, 256, 64)) == [{"k": 1}]
    assert len(_parts(_product(64, 1024, 64))) > 1


def _sum(*shape: int) -> ir.TileKernel:
    x = tensor("x", DType.F32, shape)
    (kernel,) = lower(
        Program("sums", (x,), (apply("sum", x, axes=tuple(range(len(shape)))),))
    ).kernels
    return kernel


def test_a_kernel_may_find_room_in_parts_alone() -> None:
    """As one that folds two long axes does: a block goes along one of them at most."""
    found = SplitSpace(_sum(1024, 1024), H200).ways
    assert {max(one.point) > 0 for one in found} == {True}


def test_parts_of_what_becomes_one_number_are_a_block_each() -> None:
    best, *_ = SplitSpace(_sum(1 << 22), H200).ways
    first, _ = best.schedule
    assert first.demand(first.best.schedule).blocks >= H200.units


def test_a_kernel_without_tilings_has_no_parts_either() -> None:
    with pytest.raises(CannotPrint, match="no tiling of it finds room on H200"):
        _ = SplitSpace(_sum(64, 64, 64, 64), H200).ways
