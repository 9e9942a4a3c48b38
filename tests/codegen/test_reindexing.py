from __future__ import annotations

from collections.abc import Callable
from itertools import count

from aiosearch.codegen.ir import Buffer, Fold, Index, Load, Position, affine, index
from aiosearch.codegen.positions import quotient, remainder
from aiosearch.codegen.reindexing import Draft, fused, split
from aiosearch.tensor import DType

ROW, TILE, INSIDE = Index("row", 2), Index("tile", 3), Index("inside", 4)
FLAT = affine({TILE: 4, INSIDE: 1})
X = Buffer("X", DType.F32, (2, 12))


def fresh() -> Callable[[int], Index]:
    numbers = count()
    return lambda size: Index(f"new{next(numbers)}", size)


def draft(
    *at: Position, value: tuple[Position, ...], folded: tuple[Index, ...] = (), pinned: bool = False
) -> Draft:
    layout = tuple(((axis, 1),) for axis in range(len(at)))
    return Draft(at, layout, pinned, Load(X, value), folded, Fold.SUM if folded else Fold.NONE)


def test_two_folded_indices_of_one_flat_place_are_one() -> None:
    found = fused(draft(index(ROW), value=(index(ROW), FLAT), folded=(TILE, INSIDE)), fresh())
    assert found.folded == (Index("new0", 12),)
    assert str(found.value) == "X[row, new0]"


def test_two_free_indices_are_one_and_their_axes_too() -> None:
    """Where the layout may change: the axis runs along both of the value's."""
    given = draft(index(TILE), index(ROW), index(INSIDE), value=(index(ROW), FLAT))
    found = fused(given, fresh())
    assert [str(at) for at in found.at] == ["row", "new0"]
    assert found.layout == (((1, 1),), ((0, 4), (2, 1)))


def test_a_layout_that_has_to_stay_keeps_its_axes_apart() -> None:
    """Two axes are no flat place; one that is flat already may be run along as one."""
    apart = draft(index(TILE), index(INSIDE), value=(index(ROW), FLAT), pinned=True)
    assert fused(apart, fresh()) == apart
    free = draft(index(ROW), index(TILE), index(INSIDE), value=(index(ROW), FLAT), pinned=True)
    assert fused(free, fresh()) == free


def test_indices_that_also_come_alone_stay_two() -> None:
    """Here the inner one is free, and the outer one folded."""
    given = draft(index(ROW), index(INSIDE), value=(index(ROW), FLAT), folded=(TILE,))
    assert fused(given, fresh()) == given


def test_an_index_that_is_divided_is_two() -> None:
    """A flat output of what has two axes."""
    flat = Index("flat", 24)
    value = (quotient(index(flat), 12), remainder(index(flat), 12))
    found = split(draft(index(flat), value=value, pinned=True), fresh())
    assert str(found.value) == "X[new0, new1]"
    assert [str(at) for at in found.at] == ["12new0 + new1"]


def test_a_folded_index_that_is_divided_is_two() -> None:
    flat = Index("flat", 24)
    value = (quotient(index(flat), 12), remainder(index(flat), 12))
    found = split(draft(value=value, folded=(flat,)), fresh())
    assert [one.size for one in found.folded] == [2, 12]


def test_an_index_that_stays_divided_is_left_alone() -> None:
    """Seven does not divide the twenty-four places."""
    flat = Index("flat", 24)
    given = draft(index(flat), value=(index(ROW), remainder(index(flat), 7)), pinned=True)
    assert split(given, fresh()) == given
