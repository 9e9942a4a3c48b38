from __future__ import annotations

from aiosearch.codegen.ir import (
    Apply,
    Buffer,
    BufferLoad,
    Expression,
    KernelStage,
    LoopIndex,
    Operation,
    ReductionKind,
    affine,
    index,
)
from aiosearch.codegen.passes.scratch_layout import order_scratch_axes
from aiosearch.tensor import DType

ROW, COLUMN, INNER = LoopIndex("i", 2), LoopIndex("j", 3), LoopIndex("k", 4)
SIZES = {"X": (2, 4), "W": (4, 3), "out": (2, 3), "t": (3, 2), "u": (4, 2)}
X, W, OUT, T, U = (Buffer(name, DType.F32, shape) for name, shape in SIZES.items())


def load(source: Buffer, *at: LoopIndex) -> BufferLoad:
    return BufferLoad(source, tuple(map(index, at)))


def stage(
    target: Buffer, at: tuple[LoopIndex, ...], value: Expression, *folded: LoopIndex
) -> KernelStage:
    reduction = ReductionKind.SUM if folded else ReductionKind.NONE
    return KernelStage(target, tuple(map(index, at)), value, folded, reduction)


def negative(value: Expression) -> Expression:
    return Apply(Operation.NEGATIVE, (value,))


PRODUCT = stage(
    T,
    (COLUMN, ROW),
    Apply(Operation.MULTIPLY, (load(U, INNER, ROW), load(W, INNER, COLUMN))),
    INNER,
)
LAST = stage(OUT, (ROW, COLUMN), negative(load(T, COLUMN, ROW)))


def test_scratch_lies_as_what_reads_it_runs() -> None:
    """Along the reader's free indices first, then along what it folds."""
    first = stage(U, (INNER, ROW), load(Buffer("r", DType.F32, (2,)), ROW))
    found = order_scratch_axes([first, PRODUCT, LAST], (OUT,))
    assert [str(one) for one in found] == [
        "u[i, k] = r[i]",
        "t[i, j] = sum over k of multiply(u[i, k], W[k, j])",
        "out[i, j] = negative(t[i, j])",
    ]
    assert [one.target.shape for one in found] == [(2, 4), (2, 3), (2, 3)]


def test_what_is_made_of_an_array_element_by_element_lies_as_that_does() -> None:
    """Though its reader runs along it the other way."""
    turned = Buffer("turned", DType.F32, (3, 4))
    read = Apply(Operation.MULTIPLY, (load(X, ROW, INNER), load(turned, COLUMN, INNER)))
    found = order_scratch_axes(
        [
            stage(turned, (COLUMN, INNER), negative(load(W, INNER, COLUMN))),
            stage(OUT, (ROW, COLUMN), read, INNER),
        ],
        (OUT,),
    )
    assert [str(one) for one in found] == [
        "turned[k, j] = negative(W[k, j])",
        "out[i, j] = sum over k of multiply(X[i, k], turned[k, j])",
    ]


def test_outputs_and_flat_places_stay() -> None:
    """Nobody may turn what the caller or another kernel reads, nor a sum of indices."""
    kept = [PRODUCT, LAST]
    assert order_scratch_axes(kept, (OUT, T)) == kept
    flat = Buffer("flat", DType.F32, (6,))
    at = (affine({COLUMN: 2, ROW: 1}),)
    stages = [
        KernelStage(flat, at, load(Buffer("Y", DType.F32, (2, 3)), ROW, COLUMN)),
        stage(OUT, (ROW, COLUMN), BufferLoad(flat, at)),
    ]
    assert order_scratch_axes(stages, (OUT,)) == stages
