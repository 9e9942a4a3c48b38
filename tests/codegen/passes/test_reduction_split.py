from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from testkit.kernels.lowered import difference

from aiosearch.codegen.ir import (
    BoundedValue,
    Buffer,
    BufferLoad,
    Constant,
    KernelStage,
    LoopIndex,
    ReductionKind,
    affine,
    index,
)
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.passes.reduction_split import (
    joining_stage,
    split_at_condition,
    split_stages,
    without_unused_reduction_indices,
)
from aiosearch.codegen.passes.reindexing import StageDraft
from aiosearch.tensor import DType, Program, Term, apply, tensor

ROW, INNER = LoopIndex("row", 2), LoopIndex("inner", 8)
X = Buffer("X", DType.F32, (2, 5))
OUT = Buffer("out", DType.F32, (2,))

A, B, C = (tensor(name, "f32", (4, size)) for name, size in (("A", 2), ("B", 2), ("C", 2)))
U, V, W = (tensor(name, "f32", (size, 6)) for name, size in (("U", 2), ("V", 3), ("W", 6)))


def fresh() -> Callable[[int], LoopIndex]:
    numbers = count()
    return lambda size: LoopIndex(f"new{next(numbers)}", size)


def draft(
    value: BoundedValue | BufferLoad | Constant, reduction: ReductionKind = ReductionKind.SUM
) -> StageDraft:
    return StageDraft((index(ROW),), (((0, 1),),), False, value, (INNER,), reduction)


PADDED = BoundedValue(
    ((affine({INNER: 1}, -3), 0, 5),),
    BufferLoad(X, (index(ROW), affine({INNER: 1}, -3))),
    Constant(7),
)


def test_a_fold_is_cut_where_the_answer_changes() -> None:
    """Neither part asks any more, and both together are the whole."""
    given = draft(PADDED)
    place = split_at_condition(given)
    assert place is not None
    found = split_stages(given, place, fresh())
    assert [str(part.value) for part, _ in found] == ["7", "X[row, new1]"]
    assert [[one.size for one in part.folded] for part, _ in found] == [[3], [5]]
    loads = [BufferLoad(OUT, at) for _, at in found]
    assert str(joining_stage(given, place, loads).value) == "add(out[row], out[row])"


def test_parts_of_a_maximum_are_compared() -> None:
    given = draft(PADDED, ReductionKind.MAX)
    place = split_at_condition(given)
    assert place is not None
    loads = [BufferLoad(OUT, at) for _, at in split_stages(given, place, fresh())]
    assert str(joining_stage(given, place, loads).value) == "maximum(out[row], out[row])"


def test_an_index_that_changes_nothing_is_counted() -> None:
    """A sum of one number is a product, a maximum of one is the number."""
    assert str(without_unused_reduction_indices(draft(Constant(3))).value) == "24"
    assert str(without_unused_reduction_indices(draft(Constant(3), ReductionKind.MAX)).value) == "3"
    load = BufferLoad(OUT, (index(ROW),))
    assert (
        str(without_unused_reduction_indices(draft(load)).value) == "add(multiply(out[row], 8), 0)"
    )
    assert without_unused_reduction_indices(draft(load)).folded == ()


def test_what_asks_nothing_is_not_cut() -> None:
    assert split_at_condition(draft(BufferLoad(X, (index(ROW), index(INNER))))) is None


def beside(*terms: Term, axis: int) -> Term:
    return apply("concatenate", *terms, axis=axis)


@pytest.mark.parametrize(
    ("output", "products"),
    [
        (beside(A, B, C, axis=1) @ W, 3),
        (beside(V, U, axis=0) @ beside(W, W, axis=1), 4),
        (beside(A, B, C, axis=1) @ beside(W, W, axis=1), 6),
    ],
)
def test_products_of_tensors_side_by_side_copy_none_of_them(output: Term, products: int) -> None:
    """Each is multiplied where it lies."""
    program = Program("p", (A, B, C, U, V, W), (output,))
    stages = [stage for kernel in lower(program).kernels for stage in kernel.stages]
    assert not difference(program)
    assert sum(stage.reduction is ReductionKind.SUM for stage in stages) == products
    assert all(stage.reduction is ReductionKind.SUM or not _inputs(stage) for stage in stages)


def _inputs(stage: KernelStage) -> list[str]:
    return [load.buffer.name for load in stage.loads if load.buffer.name.isupper()]
