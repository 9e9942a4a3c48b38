from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from aiosearch.optimizer.algebra.fingerprints import Amounts, Ingredients
from aiosearch.optimizer.algebra.terms import sizes
from aiosearch.tensor import Program, Term, apply, literal, tensor
from aiosearch.tensor.evaluation import evaluate

A, B = tensor("a", "f32", (3, 3)), tensor("b", "f32", (3, 3))


def made_of(term: Term) -> dict[str, int]:
    inputs = [Amounts(sizes(one), Counter([one.parameter("name")])) for one in (A, B)]
    algebra: Any = Ingredients()
    (found,) = evaluate(Program("one", (A, B), (term,)), algebra, inputs)
    assert found.shape == term.shape
    return dict(found.of)


EXAMPLES = {
    "products add up": (A @ (A * B), {"a": 2, "b": 1}),
    "sums take the larger": (A * A + B, {"a": 2, "b": 1}),
    "quotients count both sides": (A / (A + B), {"a": 2, "b": 1}),
    "functions count": (apply("exp", A) * apply("exp", B), {"a": 1, "b": 1, "exp()": 2}),
    "numbers are nothing": (literal(3) * A, {"a": 1}),
    "reductions change nothing": (apply("mean", A * B, axes=(0,)), {"a": 1, "b": 1}),
    "the largest is a function": (apply("max", A, axes=(0,)), {"a": 1, "maximum()": 1}),
    "moves change nothing": (apply("diagonal", apply("transpose", A, axes=(1, 0))), {"a": 1}),
}


@pytest.mark.parametrize("case", EXAMPLES)
def test_a_value_is_made_of(case: str) -> None:
    """What the operators say that compute it."""
    term, expected = EXAMPLES[case]
    assert made_of(term) == expected


def test_a_part_is_within_the_whole() -> None:
    """And the whole is not within a part."""
    part, whole = Amounts((), Counter(a=1)), Amounts((), Counter(a=2, b=1))
    assert part.within(whole)
    assert not whole.within(part)
