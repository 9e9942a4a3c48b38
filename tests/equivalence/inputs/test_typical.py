"""What is typical of a program, and that programs agree with themselves on it."""

from __future__ import annotations

import numpy as np
import pytest
from testkit.programs.float_pairs import over, softmax
from testkit.programs.models import MODELS
from testkit.programs.random_programs import random_program

from aiosearch.capture import capture
from aiosearch.equivalence.floats import FloatStatus, compare_floats
from aiosearch.equivalence.inputs.draws import draw_for
from aiosearch.equivalence.inputs.typical import TYPICAL, typical_ranges
from aiosearch.tensor import Program, Term, apply, literal, tensor


def captured(name: str) -> Program:
    function, arguments = MODELS[name]
    return capture(function, *arguments).program


@pytest.mark.parametrize("name", MODELS)
def test_a_model_agrees_with_itself(name: str) -> None:
    program = captured(name)
    evidence = compare_floats(program, program)
    assert evidence.outcome == "agree", str(evidence)
    assert not evidence.unseen
    telling = [trial for trial in evidence.usual if trial.status is FloatStatus.PASSED]
    assert len(telling) == len(TYPICAL), str(evidence)


DECIDED_BY_ROUNDING = {196}
"""The logarithm of a sum of products that cancel."""


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_random_programs_agree_with_themselves(first: int) -> None:
    """Or what they give is no number on any input, as of a mean of no elements."""
    for seed in set(range(first, first + 50)) - DECIDED_BY_ROUNDING:
        program = random_program(seed)
        evidence = compare_floats(program, program)
        nowhere = all(not trial.compared and not trial.undetermined for trial in evidence.trials)
        assert evidence.outcome == "agree" or nowhere, f"{seed}: {evidence}"


@pytest.mark.parametrize("name", ["residual attention", "gpt2", "llama"])
def test_a_wrong_model_is_told_from_the_right_one(name: str) -> None:
    """The first weight is taken for another: normal weights hide it in a softmax that saturates."""
    function, arguments = MODELS[name]
    first = next(at for at, type_ in enumerate(arguments) if type_.shape == (256, 256))

    def wrong(*values: object) -> object:
        changed = [*values]
        changed[first] = values[first + 1]
        return function(*changed)

    right = captured(name)
    assert compare_floats(right, capture(wrong, *arguments).program).outcome == "differ"


def test_a_softmax_without_its_maximum_fails_in_a_model_too() -> None:
    """On large inputs rounding decides what the model gives, but not that these are numbers."""

    def block(weights: Term) -> Program:
        return over(X, W)(weights @ X)

    scores = apply("matmul", X, W) @ apply("transpose", X, axes=(1, 0))
    exponential = apply("exp", scores)
    bare = exponential / apply("sum", exponential, axes=(1,), keep=True)
    evidence = compare_floats(block(softmax(scores)), block(bare))
    assert "large" in evidence.failed


X, W = tensor("X", "f32", (32, 16)), tensor("W", "f32", (16, 16))


def test_weights_are_scaled_by_the_root_of_their_fan_in() -> None:
    ranges = typical_ranges(over(X, W)(apply("tanh", X @ W)))
    assert [range_.high for range_ in ranges] == [1.0, 0.25]
    (_, weights) = draw_for(over(X, W)(X @ W), "typical", 0)
    assert 0.2 < np.std(weights) < 0.3


def test_a_weight_that_is_written_as_a_sum_of_products_is_one_too() -> None:
    vector = tensor("V", "f32", (16,))
    total = apply("sum", X * apply("reshape", vector, shape=(1, 16)), axes=(1,))
    assert [range_.high for range_ in typical_ranges(over(X, vector)(total))] == [1.0, 0.25]


def test_labels_are_places() -> None:
    (_, labels) = draw_for(captured("label loss"), "typical", 0)
    assert set(np.unique(labels)) == set(range(10))


@pytest.mark.parametrize(
    ("density", "low", "high"),
    [
        (lambda x: apply("log", x), 0, np.inf),
        (lambda x: apply("sqrt", -x), -np.inf, 0),
        (lambda x: apply("log", x) + apply("log", 1 - x), 0, 1),
        (lambda x: apply("log", x - 1), 1, np.inf),
        (
            lambda x: apply("select", apply("equal", apply("floor", x), x), x, literal(-np.inf)),
            -np.inf,
            np.inf,
        ),
    ],
    ids=["positive", "negative", "probability", "above one", "whole"],
)
def test_inputs_are_within_the_support(density: object, low: float, high: float) -> None:
    program = over(X)(density(X))  # type: ignore[operator]  # each of the functions above
    for distribution in TYPICAL:
        (values,) = draw_for(program, distribution, 0)
        assert low <= values.min() <= values.max() <= high
        assert values.min() < values.max()


def test_shares_add_up_to_one() -> None:
    off = apply("abs", apply("sum", X, axes=(1,), keep=True) - 1)
    program = over(X)(apply("select", apply("less", off, literal(1e-5)), X, literal(-np.inf)))
    (values,) = draw_for(program, "typical", 0)
    assert np.allclose(values.sum(1), 1)


def test_what_adds_a_large_number_to_round_is_still_decided_by_rounding() -> None:
    large = 1.5 * 2.0**23
    rounding = over(X)((X + large) - large)
    assert compare_floats(rounding, over(X)(X)).outcome == "unknown"


@pytest.mark.parametrize("distribution", TYPICAL)
def test_the_same_seed_draws_the_same_values(distribution: str) -> None:
    program = captured("residual attention")
    first, again, other = (draw_for(program, distribution, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(x, y) for x, y in zip(first, again, strict=True))
    assert not any(np.array_equal(x, y) for x, y in zip(first, other, strict=True))


def test_inputs_that_are_given_are_a_trial_of_their_own() -> None:
    """What is right nowhere but on them, and what is wrong only there."""
    inside = over(X)(apply("log", X - 900))
    given = [np.linspace(901, 1000, X.shape[0] * X.shape[1]).reshape(32, 16)]
    assert compare_floats(inside, inside, given=given).trials[-1].status is FloatStatus.PASSED
    clipped = over(X)(apply("minimum", X, literal(1e6)))
    assert compare_floats(over(X)(X), clipped).outcome == "agree"
    assert compare_floats(over(X)(X), clipped, given=[given[0] * 1e4]).failed == ("given",)


def test_what_is_visibly_wrong_on_inputs_that_are_given_fails_whatever_rounding_may_do() -> None:
    """A cosine of a million, known to a sixteenth, might be anything; the original has it right."""
    near = apply("less", apply("abs", X), literal(1e5))
    cosine, short = over(X)(apply("cos", X)), over(X)(apply("select", near, apply("cos", X), 0 * X))
    given = [np.linspace(1e6, 2e6, X.shape[0] * X.shape[1]).reshape(32, 16)]
    assert compare_floats(cosine, short).outcome == "agree"
    evidence = compare_floats(cosine, short, given=given)
    assert evidence.failed == ("given",)
    assert not evidence.overflows
    assert "far from what the original rightly gives" in str(evidence)
    assert compare_floats(cosine, cosine, given=given).outcome == "agree"


def test_what_is_zero_but_for_rounding_on_inputs_that_are_given_may_be_any_rounding() -> None:
    """The gradient of what a softmax does not see, added up in another order."""
    p = softmax(X)
    parts = p * (X - apply("sum", p * X, axes=(1,), keep=True))
    ours = over(X)(apply("sum", parts, axes=(1,), keep=True))
    left, right = (apply("slice", parts, axis=1, start=at, stop=at + 8) for at in (0, 8))
    halves = apply("sum", left, axes=(1,), keep=True) + apply("sum", right, axes=(1,), keep=True)
    given = [np.random.default_rng(0).standard_normal((32, 16))]
    evidence = compare_floats(ours, over(X)(halves), given=given)
    assert evidence.outcome == "agree", str(evidence)
