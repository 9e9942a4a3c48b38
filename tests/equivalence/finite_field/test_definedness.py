"""Where programs may be undefined, as far as signs tell."""

from __future__ import annotations

import pytest

from aiosearch.equivalence.finite_field.definedness import domains
from aiosearch.tensor import Block, Program, Term, apply, tensor

X = tensor("X", "f32", (2, 3))
Y = tensor("Y", "f32", (2, 3))
W = tensor("W", "f32", (3, 2))

EXP = apply("exp", X)
RELU = apply("relu", X)

TOTAL = {
    "norm": apply("rms_norm", X),
    "root of a sum of squares": apply("sqrt", X * X + Y * Y + 1e-5),
    "root of a size": apply("sqrt", apply("abs", X)),
    "root of a square product": apply("sqrt", apply("exp", X) @ apply("exp", W)),
    "softmax": EXP / apply("sum", EXP, axes=(1,), keep=True),
    "logarithm of a sum of exponentials": apply("log", apply("sum", EXP, axes=(1,))),
    "quotient by an input": X / Y,
    "quotient by a maximum and more": X / (RELU + 1),
    "root of a maximum": apply("sqrt", RELU),
    "functions": apply("tanh", X) + apply("gelu", Y) + apply("silu", X),
}

PARTIAL = {
    "sqrt": apply("sqrt", X),
    "sqrt of a product": apply("sqrt", X * Y),
    "sqrt of a difference": apply("sqrt", X * X - Y * Y),
    "log": apply("log", X),
    "log of a maximum": apply("log", RELU),
    "a quotient": X / RELU,
    "a quotient by a rounded number": X / apply("floor", X),
}


@pytest.mark.parametrize("name", sorted(TOTAL))
def test_what_is_defined_but_for_few_points_is_known_to_be(name: str) -> None:
    found = domains(Program("p", (X, Y, W), (TOTAL[name],)))
    assert found.outputs == [False]
    assert not found.partial


@pytest.mark.parametrize("name", sorted(PARTIAL))
def test_what_may_be_undefined_in_regions_is_named(name: str) -> None:
    found = domains(Program("p", (X, Y, W), (PARTIAL[name] + X, X)))
    assert found.outputs == [True, False]
    assert found.partial == {name.split(" of ")[0].split(" by ")[0]}


def test_accumulators_and_tiles_keep_what_is_known() -> None:
    def kernel(tile: Term) -> Program:
        block = Block((3,))
        loaded = block.load(tile, (1,))
        (out,) = block.results((apply("sqrt", block.accumulate(loaded, "sum")), (1,)))
        return Program("p", (X,), (out,))

    assert domains(kernel(X * X)).outputs == [False]
    assert domains(kernel(X)).outputs == [True]


def test_a_comparison_of_what_may_be_undefined_is_noted() -> None:
    seen = domains(Program("p", (X, Y), (apply("less", apply("log", X), Y),)))
    assert seen.swallowed
    assert seen.outputs == [False]
    assert not domains(Program("p", (X, Y), (apply("less", X, Y),))).swallowed
