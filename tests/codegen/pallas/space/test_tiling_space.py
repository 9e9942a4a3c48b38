"""Which tilings are proposed, and in which order."""

from __future__ import annotations

import pytest

from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import choices, parameters, write
from aiosearch.codegen.pallas.cost.block_demand import block_demand
from aiosearch.codegen.pallas.layout import TileLayout
from aiosearch.codegen.pallas.nodes import TileNodes
from aiosearch.codegen.pallas.space.tiling_space import TilingSpace
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.codegen.schedule.space import choice_at, neighbouring_choices, ranked_choices
from aiosearch.devices import device
from aiosearch.tensor import DType, Program, apply, tensor
from aiosearch.tensor.programs import BUILTINS, builtin

H200 = device("H200")


@pytest.mark.parametrize("name", BUILTINS)
def test_every_kernel_of_every_built_in_has_a_tiling_that_prints(name: str) -> None:
    module = lower(builtin(name, DType.BF16))
    best = {kernel.name: choices(kernel, H200)[0] for kernel in module.kernels}
    assert write(module, best).count("pl.pallas_call(") == len(module.kernels)


def test_the_first_choice_of_a_skinny_product_gives_every_unit_a_block() -> None:
    for kernel in lower(builtin("gated_mlp", DType.BF16)).kernels:
        best = block_demand(TileLayout(TileNodes(kernel), choices(kernel, H200)[0]))
        assert best.blocks >= H200.units - 4
        assert best.steps > 1


def test_every_choice_finds_room_on_the_device() -> None:
    (kernel, *_) = lower(builtin("gated_mlp", DType.BF16)).kernels
    for one in choices(kernel, H200):
        asked = block_demand(TileLayout(TileNodes(kernel), one))
        assert asked.shared_bytes * one.stages <= H200.shared_bytes


def test_one_loop_at_most_is_chosen_among_several() -> None:
    kernel = lower(builtin("conv_bias_relu", DType.BF16)).kernels[-1]
    loops = {one.name for one in parameters(TileNodes(kernel)) if one.loop}
    assert len(loops) > 1
    assert all(len(loops & one.tiles.keys()) <= 1 for one in choices(kernel, H200))


@pytest.mark.parametrize("name", ["gqa", "gated_mlp"])
def test_blocks_may_follow_each_other_along_whatever_is_cut(name: str) -> None:
    """But for the first such index, along which they do so anyway."""
    kernel = fuse_kernels(lower(builtin(name, DType.BF16))).kernels[-1]
    space = TilingSpace(kernel, H200)
    names = [one.name for one in space.parameters]
    fastest = space.parameters[names.index("fastest")]
    assert fastest.fine
    found = ranked_choices(space)
    assert {one.schedule.fastest for one in found} == {None}
    for one in found[::20]:
        axes = TileLayout(TileNodes(kernel), one.schedule).grid
        cut = [axis.name for axis in axes if axis.size > one.schedule.tiles[axis.name]]
        near = [other.schedule.fastest for other in neighbouring_choices(space, one.point)]
        assert [name for name in near if name is not None] == cut[1:]


def test_an_order_is_shown_and_predicted_like_any_other() -> None:
    kernel = lower(builtin("gqa", DType.BF16, head=2)).kernels[0]
    space = TilingSpace(kernel, H200)
    best = ranked_choices(space)[0]
    (other,) = [
        one for one in neighbouring_choices(space, best.point) if one.schedule.fastest == "k"
    ]
    assert str(other.schedule) == f"{best.schedule}, k first"
    assert other.seconds == best.seconds
    assert choice_at(space, other.point) == other


def _broken(space: TilingSpace, changed: dict[str, object]) -> list[set[str]]:
    """What the constraints are about that one does not keep to: the best with other values."""
    point = ranked_choices(space)[0].point
    pairs = zip(space.parameters, point, strict=True)
    chosen = {one.name: one.values[at] for one, at in pairs} | changed
    asked = ((each, [chosen[one] for one in each.of]) for each in space.constraints)
    return [{*each.of} for each, values in asked if not each.holds(*values)]


def test_what_finds_no_room_breaks_a_constraint_that_names_what_it_is_about() -> None:
    (kernel,) = fuse_kernels(lower(builtin("gated_mlp", DType.BF16, row=8))).kernels
    space = TilingSpace(kernel, H200)
    tiles = {one.name for one in parameters(TileNodes(kernel))}
    assert _broken(space, {}) == []
    assert _broken(space, {"j": 128, "k": 256, "stages": 4, "warps": 8}) == [tiles | {"stages"}]
    kernel = fuse_kernels(lower(builtin("gqa", DType.BF16, head=16))).kernels[-1]
    tiles = {one.name for one in parameters(TileNodes(kernel))}
    large = {"i": 1, "j": 64, "k": 64, "k1": 256, "warps": 4}
    assert _broken(TilingSpace(kernel, H200), large) == [tiles | {"warps"}]


def test_a_block_that_loads_nothing_ahead_has_the_fewest_stages() -> None:
    x = tensor("x", DType.F32, [64, 64])
    (kernel,) = lower(Program("twice", (x,), (x + x,))).kernels
    space = TilingSpace(kernel, H200)
    assert _broken(space, {"stages": 3}) == [{"i", "j", "stages"}]
    assert {one.schedule.stages for one in ranked_choices(space)} == {2}


def test_tiles_without_a_layout_break_a_constraint_of_their_own() -> None:
    x = tensor("x", DType.F32, [4096, 3, 4096])
    (kernel,) = lower(Program("sums", (x,), (apply("sum", x, axes=(0, 2)),))).kernels
    space = TilingSpace(kernel, H200)
    assert ranked_choices(space) == []
    chosen = {one.name: one.values[0] for one in space.parameters}
    (first, *_) = [each for each in space.constraints if not each.holds(*map(chosen.get, each.of))]
    assert {*first.of} == {one.name for one in parameters(TileNodes(kernel))}
