"""Outputs that are finite on no input, and that are judged nevertheless."""

from __future__ import annotations

import math

import pytest
from testkit.programs.float_pairs import over

from aiosearch.equivalence.floats import compare_floats
from aiosearch.equivalence.never_finite import never_finite
from aiosearch.tensor import Term, apply, literal, tensor

X, NOTHING = tensor("X", "f32", (4, 6)), tensor("N", "f32", (0, 6))
NEGATIVE = apply("minimum", X, literal(-1))


@pytest.mark.parametrize(
    "value",
    [
        X / 0,
        apply("log", -apply("abs", X)),
        apply("sqrt", NEGATIVE),
        apply("mean", NOTHING, axes=(0,)),
        apply("min", NOTHING, axes=(0,)),
        apply("sqrt", NEGATIVE) * X + 1,
        apply("sum", apply("log", apply("relu", X) * 0), axes=(1,)),
        X + literal(math.inf),
        apply("rem", X, literal(0)),
        apply("log", apply("rem", X, X)),
        apply("lgamma", apply("rem", X, X)),
        apply("digamma", apply("minimum", apply("abs", X), literal(0))),
        apply("log1p", NEGATIVE),
        1 / ((X - X) / 4),
        apply("log1p", apply("mean", NOTHING, axes=(0,))),
        apply("exp", apply("min", NOTHING, axes=(0,))),
        apply("maximum", apply("min", NOTHING, axes=(0,), keep=True), X),
    ],
)
def test_what_is_finite_on_no_input_agrees_with_itself(value: Term) -> None:
    program = over(X, NOTHING)(value)
    assert never_finite(program) == (True,)
    assert compare_floats(program, program).outcome == "agree"


@pytest.mark.parametrize(
    "value",
    [
        apply("log", X),
        X / X,
        apply("exp", X / 0),
        apply("maximum", apply("sqrt", NEGATIVE), X),
        apply("tanh", X / 0),
        apply("select", apply("less", X, literal(0)), X / 0, X),
        1 / (X / 0),
        apply("rem", X, X),
        apply("rem", X, X / 0),
        apply("log1p", apply("rem", X, literal(2))),
        apply("lgamma", NEGATIVE),
        apply("exp", apply("max", NOTHING, axes=(0,))),
        apply("minimum", apply("min", NOTHING, axes=(0,), keep=True), X),
        apply("sum", NOTHING, axes=(0,)),
    ],
)
def test_what_may_be_finite_is_not_said_to_be_never(value: Term) -> None:
    assert never_finite(over(X, NOTHING)(value)) == (False,)


def test_what_no_input_changes_is_compared_in_full() -> None:
    """A residue of rounding, which is the same on every run: what gives it too is right."""
    constant = literal(0.7) - apply("cast", apply("broadcast", literal(0.7), shape=()), dtype="f16")
    program = over(X)(X * 2, constant)
    assert compare_floats(program, program).outcome == "agree"
    assert compare_floats(program, over(X)(X * 2, constant * 2)).outcome != "agree"
