"""What is fetched for the next tile, block of registers by block of registers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from aiosearch.codegen.cpu.emit.addressing import TileRange
from aiosearch.codegen.cpu.emit.prefetch import NextTilePrefetch
from aiosearch.codegen.cpu.emit.tile import RegisterTile
from aiosearch.codegen.ir import Buffer, BufferLoad, LoopIndex, index
from aiosearch.codegen.llvm.linear import Linear
from aiosearch.tensor import DType

LANES = 16
ROW, COLUMN, INNER = LoopIndex("i", 64), LoopIndex("j", 96), LoopIndex("k", 128)
COPY = Buffer("Y.tile0", DType.F32, (INNER.size, COLUMN.size))
PLACES = (index(INNER), index(COLUMN))


class Fetched:
    """Stands where code is written, and sees which lines are fetched."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, int]] = []

    def repeat(self, begin: int, end: int, body: Any) -> None:
        for at in range(begin, end):
            body(at)

    def fetch(self, load: BufferLoad, spot: Any, to_l1: bool) -> None:
        assert not to_l1, "it is read once"
        assert load.buffer.name == "Y"
        self.lines.append((spot.places[INNER].constant, spot.places[COLUMN].constant))


def fetched(
    serial: LoopIndex, step: int, rows: int, wished: int, vectors: int, dtype: DType = DType.F32
) -> list[tuple[int, int]]:
    """By all blocks of a tile of so many rows, a step of `serial` and two blocks of columns."""
    seen, size = Fetched(), {INNER: INNER.size, COLUMN: 2 * vectors * LANES, serial: step}
    begin = {INNER: 0, COLUMN: 0, serial: step}
    ranges = {
        one: TileRange(Linear((), begin[one]), size[one], (size[one],)) for one in (COLUMN, INNER)
    }
    ranges[ROW] = TileRange(Linear((), 32), rows, (rows,))
    tile = SimpleNamespace(
        shape=SimpleNamespace(row=ROW, inner=INNER, along=COLUMN, rows=wished),
        ranges=ranges,
        lanes=LANES,
        stage=SimpleNamespace(loads=[BufferLoad(COPY, PLACES)]),
        writer=seen,
        access=seen,
    )
    given = BufferLoad(Buffer("Y", dtype, COPY.shape), PLACES)
    coming = NextTilePrefetch(serial, step, {COPY: given})
    for column in range(0, size[COLUMN], vectors * LANES):
        for row in range(0, rows, wished):
            many = min(wished, rows - row)
            places = {ROW: Linear((), 32 + row), COLUMN: ranges[COLUMN].base + column}
            coming.fetch(RegisterTile(tile, places, many, vectors, None))  # type: ignore[arg-type]
    return seen.lines


@pytest.mark.parametrize("vectors", [1, 2])
@pytest.mark.parametrize(("rows", "wished"), [(16, 4), (18, 4), (12, 12)])
def test_what_a_sum_is_folded_over_next(rows: int, wished: int, vectors: int) -> None:
    """Every line of the next rows, once; where shares do not go out, of a few more."""
    lines = fetched(INNER, 16, rows, wished, vectors)
    columns = range(0, 2 * vectors * LANES, LANES)
    assert sorted(lines) == [(k, j) for k in range(32, 48) for j in columns]


def test_the_columns_that_come_next() -> None:
    """All rows of them."""
    lines = fetched(COLUMN, 32, 16, 4, 1)
    assert sorted(lines) == [(k, j) for k in range(INNER.size) for j in (64, 80)]


def test_a_line_is_fetched_once_whatever_its_elements() -> None:
    """Two vectors of a half type are one line."""
    lines = fetched(INNER, 16, 16, 4, 2, DType.BF16)
    assert sorted(lines) == [(k, j) for k in range(32, 48) for j in (0, 32)]


def test_rows_that_are_left_over_fetch_nothing() -> None:
    assert fetched(INNER, 16, 3, 4, 1) == []
