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
from aiosearch.codegen.passes.index_unification import unify_indices
from aiosearch.tensor import DType


def indices(*names: str, size: int = 4) -> list[LoopIndex]:
    return [LoopIndex(name, size) for name in names]


def buffer(name: str, rank: int) -> Buffer:
    return Buffer(name, DType.F32, (4,) * rank)


def load(source: Buffer, *at: LoopIndex) -> BufferLoad:
    return BufferLoad(source, tuple(map(index, at)))


def stage(
    target: Buffer, at: tuple[LoopIndex, ...], value: Expression, *folded: LoopIndex
) -> KernelStage:
    reduction = ReductionKind.SUM if folded else ReductionKind.NONE
    return KernelStage(target, tuple(map(index, at)), value, folded, reduction)


def times(*values: Expression) -> Expression:
    return Apply(Operation.MULTIPLY, values)


X, T, U, OUT = buffer("X", 2), buffer("t", 2), buffer("u", 1), buffer("out", 2)


def test_what_reads_a_target_runs_along_what_writes_it() -> None:
    """Whether the reader's index is folded or free."""
    a, b, c, d, e, f = indices(*"abcdef")
    found = unify_indices(
        [
            stage(T, (a, b), load(X, a, b)),
            stage(U, (c,), load(T, c, d), d),
            stage(OUT, (e, f), times(load(T, e, f), load(U, e))),
        ]
    )
    assert [str(one) for one in found] == [
        "t[a, b] = X[a, b]",
        "u[a] = sum over b of t[a, b]",
        "out[a, b] = multiply(t[a, b], u[a])",
    ]


def test_folds_over_one_axis_of_an_input_run_together() -> None:
    """Once all other places are equal."""
    a, b, c, d, e, f = indices(*"abcdef")
    found = unify_indices(
        [
            stage(U, (a,), load(X, a, b), b),
            stage(T, (c, d), times(load(X, c, e), load(buffer("W", 2), e, d)), e),
            stage(OUT, (f, LoopIndex("g", 4)), times(load(T, f, LoopIndex("g", 4)), load(U, f))),
        ]
    )
    assert [str(one) for one in found] == [
        "u[a] = sum over b of X[a, b]",
        "t[a, d] = sum over b of multiply(X[a, b], W[b, d])",
        "out[a, d] = multiply(t[a, d], u[a])",
    ]


def test_no_two_indices_of_one_stage_become_one() -> None:
    """A target that is read at places and turned around."""
    a, b, c, d = indices(*"abcd")
    turned = times(load(T, c, d), load(T, d, c))
    _, found = unify_indices([stage(T, (a, b), load(X, a, b)), stage(OUT, (c, d), turned)])
    assert str(found) == "out[a, b] = multiply(t[a, b], t[b, a])"


def test_indices_of_different_sizes_stay_apart() -> None:
    """A part of a target is read along another index than it is written."""
    a, b, c = indices(*"abc")
    (short,) = indices("s", size=2)
    part = stage(Buffer("out", DType.F32, (4, 2)), (c, short), load(T, c, short))
    _, found = unify_indices([stage(T, (a, b), load(X, a, b)), part])
    assert str(found) == "out[a, s] = t[a, s]"


def test_results_of_one_shape_are_filled_together() -> None:
    """Though nothing reads both."""
    a, b, c, d = indices(*"abcd")
    other = Buffer("other", DType.F32, (4, 4))
    found = unify_indices(
        [stage(OUT, (a, b), load(X, a, b)), stage(other, (c, d), load(buffer("Y", 2), d, c))]
    )
    assert str(found[1]) == "other[a, b] = Y[b, a]"


def test_places_that_are_sums_share_all_their_indices() -> None:
    """Tiles of one axis that two stages go through."""
    tile, inside, other, within = (
        LoopIndex("a", 2), LoopIndex("b", 2), LoopIndex("c", 2), LoopIndex("d", 2)
    )  # fmt: skip
    flat = Buffer("X", DType.F32, (4,))
    results = [Buffer(name, DType.F32, (2,)) for name in ("one", "two")]
    found = unify_indices(
        [
            stage(results[0], (tile,), BufferLoad(flat, (affine({tile: 2, inside: 1}),)), inside),
            stage(
                results[1],
                (other,),
                BufferLoad(flat, (affine({other: 2, within: 1}),)),
                within,
            ),
        ]
    )
    assert str(found[1]) == "two[a] = sum over b of X[2a + b]"
