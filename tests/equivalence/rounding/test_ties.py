"""Elements that are computed alike: what is certain of them, and what stays open."""

from __future__ import annotations

import numpy as np
import pytest
from testkit.programs.random_programs import random_program

from aiosearch.equivalence.floats import compare_floats
from aiosearch.equivalence.inputs.draws import draw_for
from aiosearch.equivalence.rounding.machine import execute
from aiosearch.equivalence.rounding.noise import TYPED, stored_inputs
from aiosearch.equivalence.rounding.ties import TIED, tied_inputs
from aiosearch.tensor import Program, Term, apply, literal, tensor

X, Y = tensor("X", "f32", (4, 6)), tensor("Y", "f32", (4, 6))
H = apply("exp", X)


def program(value: Term) -> Program:
    return Program("program", (X, Y), (value,))


def copies(value: Term) -> Term:
    """Each column twice, one behind the other."""
    return apply("concatenate", value, value, axis=1)


@pytest.mark.parametrize(
    "value",
    [
        apply("argmax", apply("stack", H, H, axis=0), axis=0),
        apply("argmin", copies(apply("sum", H, axes=(1,), keep=True)), axis=1),
        apply("rem", apply("slice", copies(H), axis=1, start=0, stop=6), H),
        apply("equal", apply("slice", copies(H), axis=1, start=6, stop=12), H),
        apply("argmax", apply("log1p", apply("minimum", copies(H), literal(0.7) - 8)), axis=1),
    ],
)
def test_a_program_that_decides_between_copies_agrees_with_itself(value: Term) -> None:
    evidence = compare_floats(program(value), program(value))
    assert evidence.outcome == "agree", evidence


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        (
            apply("argmax", apply("stack", H, H, axis=0), axis=0),
            apply("argmin", apply("stack", H, H * 2, axis=0), axis=0) + 1,
        ),
        (
            apply("argmax", apply("stack", H, H, axis=0), axis=0),
            apply("argmax", apply("stack", X, Y, axis=0), axis=0),
        ),
        (apply("rem", apply("slice", copies(H), axis=1, start=0, stop=6), H), H),
    ],
)
def test_what_decides_otherwise_does_not_agree(value: Term, wrong: Term) -> None:
    assert compare_floats(program(value), program(wrong)).outcome != "agree"


def test_values_that_are_alike_by_rounding_alone_are_no_copies() -> None:
    """A hyperbolic tangent near one: every place of the largest is possible."""
    saturated = program(apply("argmax", apply("tanh", X + 1000), axis=1))
    assert compare_floats(saturated, saturated).outcome == "unknown"


def test_the_noise_is_that_without_names_wherever_that_is_known() -> None:
    for seed in range(60):
        drawn = random_program(seed)
        inputs = draw_for(drawn, "normal", seed)
        plain = execute(drawn, TYPED, stored_inputs(drawn, inputs))
        tied = execute(drawn, TIED, tied_inputs(drawn, inputs))
        for without, beside in zip(plain, tied, strict=True):
            assert np.array_equal(without.value, beside.noisy.value, equal_nan=True)
            assert beside.names.shape == without.value.shape
            spread = np.broadcast_to(without.spread, without.value.shape)
            there = np.isfinite(spread)
            named = np.broadcast_to(beside.noisy.spread, without.value.shape)
            assert np.all(named[there] <= spread[there])
