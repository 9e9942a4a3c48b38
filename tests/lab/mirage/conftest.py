"""A plain walk of a tree, which needs no engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


def nodes_of(problem: Any) -> Iterator[Any]:
    stack = [problem.root()]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(problem.expand(node))


@pytest.fixture
def walk() -> Callable[[Any], Iterator[Any]]:
    return nodes_of
