from __future__ import annotations

from collections.abc import Callable
from itertools import count

from aiosearch.codegen.ir import (
    Buffer,
    BufferLoad,
    LoopIndex,
    Position,
    ReductionKind,
    affine,
    index,
)
from aiosearch.codegen.ir.affine_maps import quotient, remainder
from aiosearch.codegen.passes.reindexing import StageDraft, fuse_index_pair, split_divided_index
from aiosearch.tensor import DType

ROW, TILE, INSIDE = LoopIndex("row", 2), LoopIndex("tile", 3), LoopIndex("inside", 4)
FLAT = affine({TILE: 4, INSIDE: 1})
X = Buffer("X", DType.F32, (2, 12))


def fresh() -> Callable[[int], LoopIndex]:
    numbers = count()
    return lambda size: LoopIndex(f"new{next(numbers)}", size)


def draft(
    *at: Position,
    value: tuple[Position, ...],
    folded: tuple[LoopIndex, ...] = (),
    pinned: bool = False,
) -> StageDraft:
    layout = tuple(((axis, 1),) for axis in range(len(at)))
    return StageDraft(
        at,
        layout,
        pinned,
        BufferLoad(X, value),
        folded,
        ReductionKind.SUM if folded else ReductionKind.NONE,
    )


def test_two_folded_indices_of_one_flat_place_are_one() -> None:
    found = fuse_index_pair(
        draft(index(ROW), value=(index(ROW), FLAT), folded=(TILE, INSIDE)), fresh()
    )
    assert found.folded == (LoopIndex("new0", 12),)
    assert str(found.value) == "X[row, new0]"


def test_two_free_indices_are_one_and_their_axes_too() -> None:
    """Where the layout may change: the axis runs along both of the value's."""
    given = draft(index(TILE), index(ROW), index(INSIDE), value=(index(ROW), FLAT))
    found = fuse_index_pair(given, fresh())
    assert [str(at) for at in found.at] == ["row", "new0"]
    assert found.layout == (((1, 1),), ((0, 4), (2, 1)))


def test_a_layout_that_has_to_stay_keeps_its_axes_apart() -> None:
    """Two axes are no flat place; one that is flat already may be run along as one."""
    apart = draft(index(TILE), index(INSIDE), value=(index(ROW), FLAT), pinned=True)
    assert fuse_index_pair(apart, fresh()) == apart
    free = draft(index(ROW), index(TILE), index(INSIDE), value=(index(ROW), FLAT), pinned=True)
    assert fuse_index_pair(free, fresh()) == free


def test_indices_that_also_come_alone_stay_two() -> None:
    """Here the inner one is free, and the outer one folded."""
    given = draft(index(ROW), index(INSIDE), value=(index(ROW), FLAT), folded=(TILE,))
    assert fuse_index_pair(given, fresh()) == given


def test_an_index_that_is_divided_is_two() -> None:
    """A flat output of what has two axes."""
    flat = LoopIndex("flat", 24)
    value = (quotient(index(flat), 12), remainder(index(flat), 12))
    found = split_divided_index(draft(index(flat), value=value, pinned=True), fresh())
    assert str(found.value) == "X[new0, new1]"
    assert [str(at) for at in found.at] == ["12new0 + new1"]


def test_a_folded_index_that_is_divided_is_two() -> None:
    flat = LoopIndex("flat", 24)
    value = (quotient(index(flat), 12), remainder(index(flat), 12))
    found = split_divided_index(draft(value=value, folded=(flat,)), fresh())
    assert [one.size for one in found.folded] == [2, 12]


def test_an_index_that_stays_divided_is_left_alone() -> None:
    """Seven does not divide the twenty-four places."""
    flat = LoopIndex("flat", 24)
    given = draft(index(flat), value=(index(ROW), remainder(index(flat), 7)), pinned=True)
    assert split_divided_index(given, fresh()) == given
