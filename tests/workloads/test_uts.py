"""The unbalanced tree search benchmark."""

from __future__ import annotations

from hashlib import sha1
from math import floor, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosearch.workloads import TREES, UTS


def measure(problem: UTS) -> tuple[int, int, int]:
    nodes = deepest = leaves = 0
    stack = [problem.root()]
    while stack:
        node = stack.pop()
        nodes += 1
        deepest = max(deepest, node[0])
        children = problem.expand(node)
        leaves += not children
        stack.extend(children)
    return nodes, deepest, leaves


def recurse(branching: int, limit: int, state: bytes, depth: int = 0) -> tuple[int, int, int]:
    number = int.from_bytes(state[-4:], "big") & 0x7FFFFFFF
    stop = 1 / (1 + branching)
    count = floor(log(1 - number / 2**31) / log(1 - stop)) if depth < limit else 0
    if not count:
        return 1, depth, 1
    below = [
        recurse(branching, limit, sha1(state + child.to_bytes(4, "big")).digest(), depth + 1)
        for child in range(min(count, 100))
    ]
    nodes, depths, leaves = zip(*below, strict=True)
    return 1 + sum(nodes), max(depths), sum(leaves)


@pytest.mark.parametrize("name", ["T1", "T3"])
def test_published_counts(name: str) -> None:
    """A walk of a published tree counts the published nodes, depth and leaves."""
    tree = TREES[name]
    assert measure(tree.problem) == (tree.nodes, tree.depth, tree.leaves)


@pytest.mark.parametrize("name", ["small", "medium"])
def test_small_trees(name: str) -> None:
    """A small tree counts the same as a plain recursion that shares no code with it."""
    tree = TREES[name]
    problem = tree.problem
    root = sha1(bytes(16) + problem.seed.to_bytes(4, "big")).digest()
    assert recurse(4, problem.depth, root) == (tree.nodes, tree.depth, tree.leaves)
    assert measure(problem) == (tree.nodes, tree.depth, tree.leaves)


@given(st.sampled_from(sorted(TREES)), st.integers(0, 255), st.sampled_from([0, 1, 2**24 - 1]))
def test_leading_byte(name: str, byte: int, rest: int) -> None:
    """The number of children of any node but the root is that of the law at its random number."""
    problem = TREES[name].problem
    state = bytes(16) + ((byte << 24) + rest).to_bytes(4, "big")
    expected = problem.children(((byte & 0x7F) << 24) + rest)
    assert len(problem.expand((1, state))) == expected


@given(st.integers(0, 2**31 - 1), st.binary(min_size=16, max_size=16))
def test_children_are_hashes(number: int, head: bytes) -> None:
    """Child i is one deeper, and the hash of its parent's state and i."""
    problem = UTS()
    state = head + number.to_bytes(4, "big")
    children = problem.expand((3, state))
    assert len(children) == problem.children(number)
    for index, child in enumerate(children):
        assert child == (4, sha1(state + index.to_bytes(4, "big")).digest())


def test_long_trees() -> None:
    """The long trees start as published: 2,000 children below a binomial root."""
    assert len(TREES["T3L"].problem.expand(TREES["T3L"].problem.root())) == 2_000
    assert TREES["T1L"].nodes == 102_181_082
    assert TREES["T3L"].nodes == 111_345_631


def test_no_solutions() -> None:
    """The tree has no solutions."""
    assert UTS().solutions(UTS().root()) == ()
