from __future__ import annotations

from collections.abc import Callable
from itertools import count

from aiosearch.codegen.ir import (
    Buffer,
    BufferLoad,
    KernelStage,
    LoopIndex,
    Position,
    ReductionKind,
    affine,
    index,
)
from aiosearch.codegen.passes.scratch_layout import tile_scratch
from aiosearch.tensor import DType

X, T, U = (Buffer(name, DType.F32, (12,)) for name in ("X", "t", "u"))
SUMS = Buffer("sums", DType.F32, (3,))
ALL, OTHER, TILE, INSIDE = (
    LoopIndex("a", 12),
    LoopIndex("b", 12),
    LoopIndex("c", 3),
    LoopIndex("d", 4),
)
FLAT = affine({TILE: 4, INSIDE: 1})


def fresh() -> Callable[[int], LoopIndex]:
    numbers = count()
    return lambda size: LoopIndex(f"n{next(numbers)}", size)


def copied(source: Buffer, target: Buffer, one: LoopIndex) -> KernelStage:
    return KernelStage(target, (index(one),), BufferLoad(source, (index(one),)))


def sums(source: Buffer, at: Position = FLAT) -> KernelStage:
    return KernelStage(
        SUMS, (index(TILE),), BufferLoad(source, (at,)), (INSIDE,), ReductionKind.SUM
    )


def texts(*stages: KernelStage, fixed: tuple[Buffer, ...] = (SUMS,)) -> list[str]:
    return [str(stage) for stage in tile_scratch(stages, fixed, fresh())]


def test_scratch_is_written_in_the_tiles_that_it_is_read_in() -> None:
    """And so is what it is made of."""
    assert texts(copied(X, T, ALL), copied(T, U, OTHER), sums(U)) == [
        "t[n2, n3] = X[4n2 + n3]",
        "u[n0, n1] = t[n0, n1]",
        "sums[c] = sum over d of u[c, d]",
    ]


def test_what_others_read_too_stays_as_it_is() -> None:
    """An output, or a buffer of another kernel."""
    assert texts(copied(X, T, ALL), sums(T), fixed=(T, SUMS)) == [
        "t[a] = X[a]",
        "sums[c] = sum over d of t[4c + d]",
    ]


def test_tiles_that_another_stage_cannot_follow_are_not_made() -> None:
    """One that reads backwards, or by tiles that cross these."""
    backwards = KernelStage(U, (index(OTHER),), BufferLoad(T, (affine({OTHER: -1}, 11),)))
    stages = copied(X, T, ALL), sums(T), backwards
    assert texts(*stages, fixed=(SUMS, U)) == [str(stage) for stage in stages]


def test_a_sum_over_tiles_of_tiles_is_over_both() -> None:
    whole = KernelStage(
        Buffer("out", DType.F32, ()),
        (),
        BufferLoad(T, (index(OTHER),)),
        (OTHER,),
        ReductionKind.SUM,
    )
    assert texts(copied(X, T, ALL), sums(T), whole)[2] == "out[] = sum over n2, n3 of t[n2, n3]"
