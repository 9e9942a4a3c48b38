"""The layers together: what is said of two programs, and what it rests on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from testkit.programs.random_programs import random_program

from aiosearch.equivalence import ProofWork, Status, verify
from aiosearch.equivalence.rounding.machine import MOST
from aiosearch.tensor import DType, Program, ShapeError, Term, apply, literal, tensor

X = tensor("X", "f32", (4, 8))
Y = tensor("Y", "f32", (4, 8))


def program(*outputs: Term) -> Program:
    return Program("p", (X, Y), outputs)


def mean(x: Term) -> Term:
    return apply("mean", x, axes=[1])


def total(x: Term) -> Term:
    return apply("sum", x, axes=[1])


def test_equal_programs_are_proved_for_all_shapes() -> None:
    """Every layer is asked, and the scope is said first."""
    verdict = verify(program(X * (Y + 1)), program(X * Y + X))
    assert verdict.status is Status.PROVED
    assert verdict.summary()[0] == "proved — for all shapes"
    assert verdict.fields is not None
    assert verdict.fields.bound < 1e-30
    assert verdict.proof is not None
    assert verdict.proof.proved
    assert verdict.floats is not None
    assert verdict.floats.outcome == "agree"


def test_whole_numbers_are_equal_where_they_find_room() -> None:
    """A sum of them as floats is another one where it passes 32 bits, and the scope says so."""
    n = tensor("N", "i32", (4, 8))
    a = Program("p", (n,), (apply("cast", total(n), dtype="f32"),))
    b = Program("p", (n,), (total(apply("cast", n, dtype="f32")),))
    assert (
        verify(a, b).summary()[0] == "proved — for all shapes, where no whole number passes 32 bits"
    )
    assert verify(a, a).summary()[0] == "proved — for all shapes"


def test_different_programs_are_refuted_with_inputs_that_replay() -> None:
    """A counterexample can be drawn again, and differs again."""
    a, b = program(X + Y), program(X - Y)
    verdict = verify(a, b)
    assert verdict.status is Status.REFUTED
    assert verdict.counterexample is not None
    assert verdict.counterexample.replay(a, b)


def test_outputs_that_change_places_are_refuted() -> None:
    """Two outputs of one shape in the wrong order are two wrong outputs."""
    assert verify(program(X, Y), program(Y, X)).status is Status.REFUTED


def test_a_literal_may_be_a_size() -> None:
    """1/8 is one over the number of columns at this shape, and the scope says so."""
    verdict = verify(program(mean(X)), program(total(X) * 0.125))
    assert verdict.status is Status.PROVED
    assert "= 8" in verdict.scope


@pytest.mark.parametrize("factor", [0.25, 1 / 3, 0.5, 1 / 9])
def test_a_literal_that_is_another_size_is_refuted(factor: float) -> None:
    """Small shapes must not make a wrong factor right."""
    for floats in (True, False):
        assert (
            verify(program(mean(X)), program(total(X) * factor), floats=floats).status
            is Status.REFUTED
        )


def test_what_is_not_proved_is_not_refuted() -> None:
    """A function that nothing is known of: neither equal nor shown to differ."""
    odd = apply("sin", X + Y)
    spelled = apply("sin", X) * apply("cos", Y) + apply("cos", X) * apply("sin", Y)
    verdict = verify(program(odd), program(spelled))
    assert verdict.status is Status.CANNOT_JUDGE
    assert "sin" in verdict.reason


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (X, X * Y / Y),
        (X + Y, apply("log", apply("exp", X) * apply("exp", Y))),
        (apply("sqrt", X * Y), apply("sqrt", X) * apply("sqrt", Y)),
    ],
    ids=["division", "overflow", "root"],
)
def test_a_rewrite_must_not_leave_the_domain(a: Term, b: Term) -> None:
    """NaN or infinity where the original is finite refutes, whatever the real numbers say."""
    assert verify(program(a), program(b)).status is Status.REFUTED


def test_a_rewrite_may_define_more_unless_strict() -> None:
    """x·y/y is undefined where y is zero; x is not."""
    a, b = program(X * Y / Y), program(X)
    assert verify(a, b).status is Status.PROVED
    assert verify(a, b, strict=True).status is Status.REFUTED


def weights(scores: Term) -> Term:
    e = apply("exp", scores - apply("max", scores, axes=[1], keep=True))
    return e / apply("sum", e, axes=[1], keep=True)


def other(scores: Term) -> Term:
    e = apply("exp", scores - apply("max", scores, axes=[1], keep=True))
    return e * (1 / apply("sum", e, axes=[1], keep=True))


@pytest.mark.parametrize("low", [-1e9, float("-inf"), -float(MOST[DType.F32])])
def test_scores_that_truth_values_mask_are_judged(low: float) -> None:
    mask = tensor("M", "bool", (4, 8))
    one, two = (
        Program("p", (X, mask), (made(apply("select", mask, X, literal(low))),))
        for made in (weights, other)
    )
    verdict = verify(one, two)
    assert verdict.status.accepted, verdict.reason
    assert verdict.floats is not None
    assert verdict.floats.counted > 5


def test_a_mask_that_drowns_everything_is_named() -> None:
    """As any number, 2 and it times -1e9 leaves no digit of what it is added to."""
    one, two = (program(made(X + (2 + Y) * -1e9)) for made in (weights, other))
    verdict = verify(one, two)
    assert verdict.status is Status.CANNOT_JUDGE
    assert "it multiplies by -1e+09, beside which what is added is lost" in verdict.reason


@pytest.mark.parametrize("sizes", [(1, 8), (4, 1), (1, 1), (0, 8), (4, 0)])
def test_axes_of_one_or_no_elements(sizes: tuple[int, int]) -> None:
    """They are axes like any other."""
    x = tensor("X", "f32", sizes)
    a = Program("a", (x,), (apply("sum", x * 2, axes=[1]),))
    b = Program("b", (x,), (apply("sum", x, axes=[1]) * 2,))
    assert verify(a, b).status.accepted


def test_programs_of_other_types_are_not_compared() -> None:
    """That is an error, not a verdict."""
    with pytest.raises(ShapeError, match="outputs"):
        verify(program(X), program(total(X)))


def test_a_verdict_is_json() -> None:
    """All evidence goes out as plain data."""
    for other in (X + Y, X - Y):
        found: dict[str, Any] = verify(program(Y + X), program(other)).to_dict()
        assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("seed", range(60))
def test_a_program_is_itself(seed: int) -> None:
    """No layer refutes a program that is compared with itself."""
    one = random_program(seed)
    assert verify(one, one, floats=False).status is not Status.REFUTED


def test_of_equal_terms_rounding_need_not_be_known() -> None:
    """Where all is saturated rounding decides, which is said of the value; the terms are proved."""
    ties = program(apply("argmax", apply("tanh", X + 1000), axis=1))
    verdict = verify(ties, ties)
    assert verdict.status is Status.PROVED
    assert verdict.floats is not None
    assert verdict.floats.outcome == "unknown"
    assert "is decided by rounding" in str(verdict.floats)


def test_each_layer_is_told_as_soon_as_it_is_done() -> None:
    heard: list[str] = []
    verdict = verify(program(X * (Y + 1)), program(X * Y + X), tell=heard.append)
    assert verdict.floats is not None
    trials = verdict.floats.trials
    assert heard[:2] == ["a fields: agree", "b proof: found"]
    first = rf"c floats: 1 of \d+, {trials[0].distribution} passed"
    assert re.fullmatch(first, heard[2])
    assert len(heard) == 2 + len(trials)


def test_a_trial_that_takes_too_long_is_left_off() -> None:
    """What is proved stays so, and the evidence says what was left out."""
    verdict = verify(program(X * (Y + 1)), program(X * Y + X), seconds=1e-9)
    assert verdict.status is Status.PROVED
    assert verdict.floats is not None
    assert verdict.floats.trials == ()
    assert re.search(
        r"unknown on 0 distributions; \d+ distributions were left out", str(verdict.floats)
    )


def test_large_programs_are_compared_in_floats_at_a_smaller_shape() -> None:
    """It is named; digits that are lost are seen there too."""
    x = tensor("X", "f32", (256, 512))

    def variance(naive: bool) -> Program:
        def mean_of(value: Term) -> Term:
            return apply("mean", value, axes=[1], keep=True)

        center = mean_of(x)
        careful = mean_of((x - center) * (x - center))
        value = mean_of(x * x) - center * center if naive else careful
        return Program("variance", (x,), (value,))

    same = verify(variance(False), variance(False), most_elements=2**12)
    assert same.status is Status.PROVED
    assert same.floats is not None
    assert same.floats.shape == "X0=64, X1=64"
    assert " at X0=64, X1=64" in str(same.floats)
    assert verify(variance(False), variance(True), most_elements=2**12).status is Status.REFUTED
    whole = verify(variance(False), variance(False))
    assert whole.floats is not None
    assert whole.floats.shape == ""


def test_floats_alone_decide_where_that_is_asked_and_nothing_else_tells() -> None:
    """As of functions that can only be run; what they differ on they refute."""
    erf, even = apply("erf", X), apply("erf", apply("abs", X))
    a, b = program(erf * erf + Y), program(even * even + Y)
    unsure, alone = verify(a, b), verify(a, b, floats_alone=True)
    assert unsure.status is Status.CANNOT_JUDGE
    assert alone.status is Status.TESTED
    assert alone.scope.startswith("in floats only, at these shapes: ")
    assert verify(a, program(even * even + X), floats_alone=True).status is Status.REFUTED


def test_what_is_tested_says_at_which_shapes() -> None:
    """The small shape is that of exact arithmetic: floats were compared at the one given."""
    a, b = program(X * (Y + 1)), program(X * Y + X)
    verdict = verify(a, b, work=ProofWork(1))
    assert verdict.status is Status.TESTED
    assert verdict.scope.startswith("in exact arithmetic at X0=3, X1=3")
    assert verdict.scope.endswith(", and in floats at the shapes given")
    without = verify(a, b, work=ProofWork(1), floats=False)
    assert "floats" not in without.scope
