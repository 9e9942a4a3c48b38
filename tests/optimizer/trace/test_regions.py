"""Joining steps: what is joined can always run as one, and what could be joined is."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from aiosearch.optimizer.trace.regions import Clusters, ordered

SIZE = 9
EDGES = st.sets(st.sampled_from(list(combinations(range(SIZE), 2))), max_size=16)
PAIRS = st.lists(st.sampled_from(list(combinations(range(SIZE), 2))), max_size=20)


def groups(clusters: Clusters) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for one in range(SIZE):
        found.setdefault(clusters.find(one), []).append(one)
    return list(found.values())


def has_circle(parts: list[list[int]], edges: set[tuple[int, int]]) -> bool:
    """By brute force: takes away what needs nothing, until nothing can be taken away."""
    home = {member: at for at, part in enumerate(parts) for member in part}
    left = {(home[one], home[other]) for one, other in edges if home[one] != home[other]}
    while left:
        ready = {one for one, _ in left} - {other for _, other in left}
        if not ready:
            return True
        left = {edge for edge in left if edge[0] not in ready}
    return False


@given(EDGES, PAIRS)
def test_clusters_never_wait_for_each_other(
    edges: set[tuple[int, int]], pairs: list[tuple[int, int]]
) -> None:
    clusters = Clusters(edges, SIZE)
    for one, other in pairs:
        before = groups(clusters)
        joined = clusters.join(one, other)
        assert not has_circle(groups(clusters), edges)
        if not joined:
            both = [part for part in before if one in part or other in part]
            rest = [part for part in before if part not in both]
            assert has_circle([*rest, [step for part in both for step in part]], edges)


@given(EDGES, PAIRS)
def test_groups_come_after_those_that_they_need(
    edges: set[tuple[int, int]], pairs: list[tuple[int, int]]
) -> None:
    clusters = Clusters(edges, SIZE)
    for one, other in pairs:
        clusters.join(one, other)
    parts = groups(clusters)
    order = ordered(parts, edges)
    assert sorted(order) == list(range(len(parts)))
    place = {member: order.index(at) for at, part in enumerate(parts) for member in part}
    assert all(place[one] <= place[other] for one, other in edges)
