"""The sentence about the value from which on nothing can be compared."""

from __future__ import annotations

import pytest
from testkit.programs.float_pairs import over

from aiosearch.equivalence.floats import compare_floats
from aiosearch.tensor import Term, apply, tensor

X = tensor("X", "f32", (16, 8))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ((X + 2.0**24) - 2.0**24, "`sub(add(X, 16777216), 16777216)` is decided by rounding"),
        (apply("log", apply("tanh", X) - 2), "`log(sub(tanh(X), 2))` is no number"),
        (X / (apply("tanh", X) * 0), "`div(X, mul(tanh(X), 0))` is infinite"),
    ],
)
def test_the_first_value_that_does_not_tell_is_named(value: Term, sentence: str) -> None:
    program = over(X)(value * 2)
    evidence = compare_floats(program, program)
    assert evidence.outcome == "unknown"
    assert evidence.remark == f"{sentence}, on typical inputs (X normal by 1)"
    assert str(evidence).endswith(evidence.remark)


def test_of_several_outputs_the_one_that_does_not_tell_is_looked_at() -> None:
    program = over(X)(X * 2, apply("exp", (X + 2.0**24) - 2.0**24))
    evidence = compare_floats(program, program)
    assert evidence.remark.startswith("`sub(add(X, 16777216), 16777216)` is decided")
