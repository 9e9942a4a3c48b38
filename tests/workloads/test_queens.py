"""N queens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiosearch.workloads import Queens


@pytest.mark.parametrize(
    ("n", "expected"),
    [(1, 1), (2, 0), (3, 0), (4, 2), (5, 10), (6, 4), (7, 40), (8, 92), (9, 352), (10, 724)],
)
def test_known_counts(
    n: int, expected: int, answers: Callable[[Any], Counter[tuple[int, ...]]]
) -> None:
    """The number of solutions is the known one (OEIS A000170), each found once."""
    found = answers(Queens(n))
    assert len(found) == found.total() == expected


def test_no_attack(answers: Callable[[Any], Counter[tuple[int, ...]]]) -> None:
    """A solution has n queens that share no column and no diagonal."""
    for columns in answers(Queens(7)):
        assert sorted(columns) == list(range(7))
        assert len({row + column for row, column in enumerate(columns)}) == 7
        assert len({row - column for row, column in enumerate(columns)}) == 7


def test_known_nodes(walk: Callable[[Any], Iterator[Any]]) -> None:
    """Eight queens have 2,057 partial placements, the empty board included."""
    assert sum(1 for _ in walk(Queens())) == 2_057
