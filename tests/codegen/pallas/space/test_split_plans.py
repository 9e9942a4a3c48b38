"""Which ways to run a module are proposed, and in which order."""

from __future__ import annotations

import pytest

from aiosearch.codegen import ir
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.pallas import CannotPrint, Parted, modules, plans, write
from aiosearch.codegen.pallas.cost.block_demand import block_demand
from aiosearch.codegen.pallas.layout import TileLayout
from aiosearch.codegen.pallas.nodes import TileNodes
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.codegen.schedule.plans import IllegalPointError
from aiosearch.codegen.schedule.space import ranked_choices
from aiosearch.devices import device
from aiosearch.tensor import DType, Program, apply, tensor
from aiosearch.tensor.programs import builtin

H200 = device("H200")


def _scores(rows: int = 8) -> ir.Module:
    x, g = tensor("X", DType.BF16, [rows, 4096]), tensor("G", DType.BF16, [4096, 16])
    return lower(Program("scores", (x, g), (x @ g,)))


def _late_attention(keys: int) -> ir.Module:
    """With the division behind the product, as the optimizer finds it."""
    sizes = [[2, 256, 64], [2, 64, keys], [2, keys, 64]]
    q, k, v = (tensor(name, DType.BF16, size) for name, size in zip("QKV", sizes, strict=True))
    scores = q @ k
    e = apply("exp", scores - apply("max", scores, axes=(2,), keep=True))
    out = (e @ v) / apply("sum", e, axes=(2,), keep=True)
    return fuse_kernels(lower(Program("late", (q, k, v), (out,))))


@pytest.mark.parametrize("module", [_scores(), _late_attention(4096)], ids=["product", "attention"])
def test_a_kernel_that_leaves_units_idle_is_split_until_they_have_a_block(
    module: ir.Module,
) -> None:
    best, other = plans(module, H200, 2)
    assert (len(best.module.kernels), len(other.module.kernels)) == (2, 1)
    (parts, _) = best.module.kernels
    assert (
        block_demand(TileLayout(TileNodes(parts), best.schedules[parts.name])).blocks
        >= H200.units - 4
    )


def test_what_fills_the_device_stays_as_it_is() -> None:
    module = fuse_kernels(lower(builtin("ntrans", DType.BF16, row=1024)))
    assert modules(module, H200) == [module]


def test_partial_results_that_are_larger_than_the_inputs_are_not_proposed() -> None:
    a, b = tensor("A", DType.BF16, [64, 64]), tensor("B", DType.BF16, [64, 64])
    module = lower(Program("small", (a, b), (a @ b,)))
    assert modules(module, H200) == [module]


def test_plans_come_by_prediction_each_module_among_them() -> None:
    module = _scores()
    found = plans(module, H200, 6)
    assert len(found) == 6
    assert {len(one.module.kernels) for one in found} == {1, 2}
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)
    assert all(write(one.module, one.schedules) for one in found)


def test_a_second_kernel_is_not_for_nothing() -> None:
    for one in plans(_scores(), H200, 6):
        assert one.seconds > H200.launch_seconds * len(one.module.kernels)


def test_a_module_with_a_kernel_that_no_tiling_fits_has_no_plans() -> None:
    x = tensor("x", DType.F32, [64, 64, 64, 64])
    module = lower(Program("sums", (x,), (apply("sum", x, axes=(0, 1, 2, 3)),)))
    with pytest.raises(CannotPrint, match="no tiling of it finds room on H200"):
        plans(module, H200, 1)


def test_beside_a_plan_one_kernel_has_other_parts_and_the_others_keep_their_tilings() -> None:
    parted = Parted(fuse_kernels(lower(builtin("mlp_down", DType.BF16, row=8))), H200)
    whole = ((0,), (0,))
    assert whole in parted.promising
    points = tuple(ranked_choices(space)[1].point for space in parted.tilings(whole).spaces)
    found = list(parted.beside(whole, points))
    assert len({parting for parting, _ in found}) == len(found) > 2
    assert {parting[0] for parting, _ in found} > {(0,)} < {parting[1] for parting, _ in found}
    for parting, plan in found:
        assert parting.count((0,)) == 1
        assert len(plan.module.kernels) == 3
        assert plan.points[-1 if parting[1] == (0,) else 0] == points[parting.index((0,))]
        assert parted.tilings(parting).at(plan.points).seconds == plan.seconds
        assert write(plan.module, plan.schedules)


def test_parts_that_are_not_legal_are_said() -> None:
    parted = Parted(_scores(), H200)
    with pytest.raises(IllegalPointError, match="no schedule is at"):
        parted.tilings(((1,),))
