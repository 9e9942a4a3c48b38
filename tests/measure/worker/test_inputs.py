"""Before a copy is read again, as much else was as makes every cache forget it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aiosearch.measure import ArrayType
from aiosearch.measure.protocol import LoadRequest, Text
from aiosearch.measure.worker.inputs import (
    BEYOND,
    MOST_COPIES,
    ColdInputs,
    CopyRing,
    CopyTurn,
    InputStock,
    copies_wanted,
)

CACHE = 1000


def grown(takers: Sequence[Sequence[int]], sizes: Sequence[int], calls: int) -> list[CopyTurn]:
    """Turns of candidates that each take some of the arrays, with as many copies as they want."""
    rings = [CopyRing(np.zeros(size, np.int8), np.copy) for size in sizes]
    turns = [CopyTurn(ColdInputs([rings[one] for one in own]), calls) for own in takers]
    for ring in {ring for turn in turns for ring in turn.inputs.rings}:
        ring.grow(copies_wanted(ring, turns, CACHE))
    return turns


def forgotten(turns: Sequence[CopyTurn], orders: Sequence[Sequence[int]]) -> int:
    """The fewest bytes, each counted once, that lie between two uses of the same copy."""
    read: list[tuple[int, int]] = []
    for order in orders:
        for index in order:
            inputs, calls = turns[index]
            for _ in range(calls):
                read.extend({id(array): array.nbytes for array in inputs.next()}.items())
    last: dict[int, int] = {}
    least = 10**9
    for at, (copy, _) in enumerate(read):
        if copy in last:
            least = min(least, sum(dict(read[last[copy] + 1 : at]).values()))
        last[copy] = at
    return least


@given(st.data())
def test_what_is_read_is_in_no_cache(data: st.DataObject) -> None:
    """Of contenders that take one array each, or all the same."""
    sizes = data.draw(st.lists(st.integers(100, 3000), min_size=1, max_size=6))
    takers = [[place] for place in range(len(sizes))]
    takers += data.draw(st.lists(st.sampled_from(takers), max_size=3))
    calls = data.draw(st.integers(1, 3))
    turns = grown(takers, sizes, calls)
    longest = max(len(ring.copies) for turn in turns for ring in turn.inputs.rings)
    order = st.permutations(range(len(turns)))
    orders = data.draw(st.lists(order, min_size=2 * longest, max_size=2 * longest + 3))
    assert forgotten(turns, orders) >= BEYOND * CACHE


def test_few_copies_do_where_much_else_is_read() -> None:
    """Twelve contenders with weights of their own: four sets each; one alone takes thirty."""
    together = grown([[place] for place in range(12)], [70] * 12, 1)
    assert {len(ring.copies) for turn in together for ring in turn.inputs.rings} == {4}
    (alone,) = grown([[0]], [70], 1)
    assert [len(ring.copies) for ring in alone.inputs.rings] == [30]


def test_a_call_takes_an_array_once() -> None:
    """Who is given the same array twice is so when it is cold."""
    ring = CopyRing(np.zeros(1), np.copy)
    ring.grow(3)
    inputs = ColdInputs([ring, ring])
    assert inputs.size == ring.size
    first, second = inputs.next()
    assert first is second
    assert inputs.next()[0] is not first


def test_the_smallest_are_not_cold() -> None:
    small = ColdInputs([CopyRing(np.zeros(1, np.int8), np.copy)])
    assert not small.can_be_cold(MOST_COPIES)
    assert small.can_be_cold(MOST_COPIES - 1)
    assert not ColdInputs([]).can_be_cold(CACHE)
    (ring,) = small.rings
    assert copies_wanted(ring, [CopyTurn(small, 1)], 10**6) == MOST_COPIES


def load(number: int, *sizes: int, constants: dict[int, int] | None = None) -> LoadRequest:
    types = tuple(ArrayType("float32", (size,)) for size in sizes)
    text = Text("", "", types, False, None, "standard")
    return LoadRequest(number, text, b"", b"", constants or {}, {})


def test_an_array_that_the_next_race_takes_as_well_is_not_drawn_again() -> None:
    stock = InputStock("cpu")
    before = stock.inputs(load(1, 3, 4), 0)
    for ring in before.rings:
        ring.grow(2)
    stock.retain([load(2, 3, 5)], 0)
    after = stock.inputs(load(2, 3, 5), 0)
    assert after.first[0] is before.first[0]
    assert [len(ring.copies) for ring in after.rings] == [1, 1]
    assert stock.inputs(load(1, 3, 4), 0).first[1] is not before.first[1]
    stock.retain([load(1, 3, 4)], 1)
    assert stock.inputs(load(1, 3, 4), 1).first[0] is not before.first[0]


def test_a_constant_is_let_go_with_its_copies_and_what_was_drawn_stays() -> None:
    stock = InputStock("cpu")
    stock.keep(7, np.zeros(4, np.float32))
    before = stock.inputs(load(1, 3, 4, constants={1: 7}), 0)
    stock.forget((7,))
    stock.keep(7, np.ones(4, np.float32))
    after = stock.inputs(load(1, 3, 4, constants={1: 7}), 0)
    assert after.first[0] is before.first[0]
    assert after.first[1].sum() == 4
