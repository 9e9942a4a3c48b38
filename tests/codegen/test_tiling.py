from __future__ import annotations

from collections.abc import Callable
from itertools import count

from aiosearch.codegen.ir import Buffer, Fold, Index, Load, Position, Stage, affine, index
from aiosearch.codegen.tiling import tiled
from aiosearch.tensor import DType

X, T, U = (Buffer(name, DType.F32, (12,)) for name in ("X", "t", "u"))
SUMS = Buffer("sums", DType.F32, (3,))
ALL, OTHER, TILE, INSIDE = Index("a", 12), Index("b", 12), Index("c", 3), Index("d", 4)
FLAT = affine({TILE: 4, INSIDE: 1})


def fresh() -> Callable[[int], Index]:
    numbers = count()
    return lambda size: Index(f"n{next(numbers)}", size)


def copied(source: Buffer, target: Buffer, one: Index) -> Stage:
    return Stage(target, (index(one),), Load(source, (index(one),)))


def sums(source: Buffer, at: Position = FLAT) -> Stage:
    return Stage(SUMS, (index(TILE),), Load(source, (at,)), (INSIDE,), Fold.SUM)


def texts(*stages: Stage, fixed: tuple[Buffer, ...] = (SUMS,)) -> list[str]:
    return [str(stage) for stage in tiled(stages, fixed, fresh())]


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
    backwards = Stage(U, (index(OTHER),), Load(T, (affine({OTHER: -1}, 11),)))
    stages = copied(X, T, ALL), sums(T), backwards
    assert texts(*stages, fixed=(SUMS, U)) == [str(stage) for stage in stages]


def test_a_sum_over_tiles_of_tiles_is_over_both() -> None:
    whole = Stage(Buffer("out", DType.F32, ()), (), Load(T, (index(OTHER),)), (OTHER,), Fold.SUM)
    assert texts(copied(X, T, ALL), sums(T), whole)[2] == "out[] = sum over n2, n3 of t[n2, n3]"
