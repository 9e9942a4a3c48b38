"""Which tilings are proposed, and in which order."""

from __future__ import annotations

import pytest

from aiosearch.codegen.lowering import lower
from aiosearch.codegen.pallas import choices, parameters, write
from aiosearch.codegen.pallas.candidates import Tilings
from aiosearch.codegen.pallas.counting import demand
from aiosearch.codegen.pallas.layout import Layout
from aiosearch.codegen.pallas.nodes import Nodes
from aiosearch.codegen.parameters import beside, choice_at, choices_of
from aiosearch.devices import device
from aiosearch.tensor import DType
from aiosearch.tensor.programs import BUILTINS, builtin

H200 = device("H200")


@pytest.mark.parametrize("name", BUILTINS)
def test_every_kernel_of_every_built_in_has_a_tiling_that_prints(name: str) -> None:
    module = lower(builtin(name, DType.BF16))
    best = {kernel.name: choices(kernel, H200)[0] for kernel in module.kernels}
    assert write(module, best).count("pl.pallas_call(") == len(module.kernels)


def test_the_first_choice_of_a_skinny_product_gives_every_unit_a_block() -> None:
    for kernel in lower(builtin("gated_mlp", DType.BF16)).kernels:
        best = demand(Layout(Nodes(kernel), choices(kernel, H200)[0]))
        assert best.blocks >= H200.units - 4
        assert best.steps > 1


def test_every_choice_finds_room_on_the_device() -> None:
    (kernel, *_) = lower(builtin("gated_mlp", DType.BF16)).kernels
    for one in choices(kernel, H200):
        asked = demand(Layout(Nodes(kernel), one))
        assert asked.shared_bytes * one.stages <= H200.shared_bytes


def test_one_loop_at_most_is_chosen_among_several() -> None:
    kernel = lower(builtin("conv_bias_relu", DType.BF16)).kernels[-1]
    loops = {one.name for one in parameters(Nodes(kernel)) if one.loop}
    assert len(loops) > 1
    assert all(len(loops & one.tiles.keys()) <= 1 for one in choices(kernel, H200))


def test_blocks_may_follow_each_other_along_any_index_that_is_cut_but_is_not_the_first_anyway() -> (
    None
):
    (kernel,) = lower(builtin("gqa", DType.BF16, head=2)).kernels[:1]
    space = Tilings(kernel, H200)
    names = [one.name for one in space.parameters]
    fastest = space.parameters[names.index("fastest")]
    assert fastest.fine
    found = choices_of(space)
    assert {one.schedule.fastest for one in found} == {None}
    for one in found[::20]:
        axes = Layout(Nodes(kernel), one.schedule).grid
        cut = [axis.name for axis in axes if axis.size > one.schedule.tiles[axis.name]]
        near = [other.schedule.fastest for other in beside(space, one.point)]
        assert [name for name in near if name is not None] == cut[1:]


def test_an_order_is_shown_and_predicted_like_any_other() -> None:
    (kernel,) = lower(builtin("gqa", DType.BF16, head=2)).kernels[:1]
    space = Tilings(kernel, H200)
    best = choices_of(space)[0]
    (other,) = [one for one in beside(space, best.point) if one.schedule.fastest == "k"]
    assert str(other.schedule) == f"{best.schedule}, k first"
    assert other.seconds == best.seconds
    assert choice_at(space, other.point) == other
