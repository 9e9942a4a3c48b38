"""What is made of folds while they are in registers."""

from __future__ import annotations

import pytest
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.native_run import program

from aiosearch.codegen.cpu.packing import PackedLayout
from aiosearch.codegen.cpu.reduce.epilogue import with_epilogues
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.ir import Module, ReductionKind, TileKernel
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.tensor import DType, Term, apply, literal, tensor

SIZES = {"X": (9, 21), "Y": (21, 35), "Z": (9, 35)}


def inputs(dtype: DType = DType.F32) -> tuple[Term, Term, Term]:
    x, y, z = (tensor(name, dtype, shape) for name, shape in SIZES.items())
    return x, y, z


def whole(*outputs: Term) -> Module:
    """As few kernels as can be."""
    return fuse_kernels(lower(program(*outputs)))


def left(kernel: TileKernel) -> int:
    """How many folds are stored as they are."""
    made, endings = with_epilogues(kernel, None, {})
    return sum(
        one.reduction is not ReductionKind.NONE and one.target not in endings for one in made.stages
    )


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.BF16, DType.F16])
def test_a_stage_that_changes_a_product_is_its_ending(dtype: DType) -> None:
    """Half types are rounded on the way, as they would be in memory."""
    x, y, z = inputs(dtype)
    module = whole(apply("tanh", x @ y) * z)
    (kernel,) = module.kernels
    assert len(with_epilogues(kernel, None, {})[1]) == 1
    assert left(kernel) == 0
    assert_right(module, machines=[host()])


def test_panels_have_neighbours_where_rows_have_none() -> None:
    """Both factors lie in rows: only laid out, there are vectors of products to be changed."""
    x, k = tensor("X", DType.F32, (9, 21)), tensor("K", DType.F32, (35, 21))
    scores = x @ apply("transpose", k, axes=(1, 0)) / literal(3)
    module = whole(apply("exp", scores) * scores)
    (kernel,) = module.kernels
    (buffer,) = (one for one in kernel.inputs if one.name == "K")
    layout = PackedLayout(1, 0, 2 * host().width // 4, False)
    assert len(with_epilogues(kernel, None, {buffer: layout})[1]) == 1
    assert not with_epilogues(kernel, None, {})[1]
    for own in (Schedule(panels={"K": layout}), Schedule(layouts={"K": layout}), Schedule()):
        assert_right(module, schedules={kernel.name: own}, machines=[host()])


def test_a_stage_is_the_ending_of_one_fold() -> None:
    """What else it reads stays a stage, also where another one would change that alone."""
    x, y, z = inputs()
    one, other = x @ y, apply("exp", x) @ y
    for outputs in ((one / other, apply("log", other)), (apply("log", other), one / other)):
        module = whole(*outputs)
        assert_right(module, machines=[host()])
        assert_right(whole(outputs[0] + z, outputs[1]), machines=[host()])


def test_softmax_with_its_own_normalizer() -> None:
    """An average by weights, and the logarithm of their sum, share the sum."""
    x = tensor("X", DType.F32, (5, 33))
    y = tensor("Y", DType.F32, (5, 33))
    e = apply("exp", x - apply("max", x, axes=(1,), keep=True))
    total, average = apply("sum", e, axes=(1,)), apply("sum", e * y, axes=(1,))
    for outputs in (
        (average / total, apply("log", total)),
        (apply("log", total), average / total),
    ):
        assert_right(whole(*outputs), machines=[host()])


def test_sums_along_lanes_are_changed_in_lanes_of_their_own() -> None:
    """One element at a time would be slower than to store them first."""
    x = tensor("X", DType.F32, (64, 33))
    module = lower(program(apply("tanh", apply("sum", x, axes=(1,)))))
    assert all(not with_epilogues(one, None, {})[1] for one in module.kernels)
    assert_right(module, machines=[host()])


def test_along_an_index_an_ending_reads_nothing_that_the_kernel_makes() -> None:
    """In which pass it runs is seen from what its fold reads."""
    x, y, z = inputs()
    module = whole((x @ y) * apply("sum", z, axes=(1,), keep=True))
    for kernel in module.kernels:
        for index in kernel.indices:
            own = {kernel.name: Schedule({index.name: 5}, index.name)}
            assert_right(module, schedules=own, machines=[host()])


def test_what_more_than_one_stage_reads_is_stored() -> None:
    """Each of them has to find it."""
    x, y, z = inputs()
    made = x @ y
    module = whole(apply("tanh", made) * z, apply("exp", made))
    assert all(
        not with_epilogues(one, None, {})[1] for one in module.kernels if len(one.stages) > 1
    )
    assert_right(module, machines=[host()])
