"""Trees as Python says them."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from enum import Enum
from typing import Any

import jax
import pytest

from aiosearch.optimizer.errors import OptimizeError
from aiosearch.optimizer.trees import spelled, way

Point = namedtuple("Point", ["x", "y"])


class Side(Enum):
    """A key that its own text does not give back."""

    LEFT = 1


def said(tree: Any) -> list[str]:
    found, structure = jax.tree.flatten(tree)
    return spelled(structure, [f"v{one}" for one in found])


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (1, "v1"),
        (None, "None"),
        ((), "()"),
        ((1,), "(v1,)"),
        ([1, (2, {})], "[v1, (v2, {})]"),
        ({"a (b, c": 1, "d": [None]}, "{'a (b, c': v1, 'd': [None]}"),
        ({(1, "x"): 2}, "{(1, 'x'): v2}"),
    ],
)
def test_a_tree_is_told_as_it_is_written(tree: Any, text: str) -> None:
    assert said(tree) == [text]


def test_a_large_tree_takes_several_lines() -> None:
    tree = {f"key {number:03}": list(range(number)) for number in range(20)}
    lines = said(tree)
    assert len(lines) > 1
    assert max(map(len, lines)) < 90
    numbers = {f"v{one}": one for one in range(20)}
    assert eval("\n".join(lines), numbers) == tree


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        ([Point(1, 2)], "of the type Point"),
        (OrderedDict(a=1), "of the type OrderedDict"),
        ({Side.LEFT: 1}, "<Side.LEFT: 1> is a key of a dict"),
    ],
)
def test_what_is_no_text_is_named(tree: Any, why: str) -> None:
    with pytest.raises(OptimizeError, match=why):
        said(tree)


def test_the_way_to_a_leaf_takes_it_from_its_tree() -> None:
    tree = {"a": [1, Point(2, (3, {"b": 4}))], 5: 6}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree["a"])[0]:
        assert eval(f"tree{way(path)}", {"tree": tree["a"]}) == leaf
