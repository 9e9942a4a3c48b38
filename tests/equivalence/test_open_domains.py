"""Whether rounding decides that a program is a number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from testkit.programs.float_pairs import last, over

from aiosearch.equivalence.floats import FloatStatus, compare_outputs
from aiosearch.equivalence.open_domains import is_left_to_rounding
from aiosearch.equivalence.runnables import ExecutedProgram
from aiosearch.tensor import Term, apply, literal, tensor
from aiosearch.tensor.floats import Array

X = tensor("X", "f32", (32, 256))
APART = np.random.default_rng(0).standard_normal(X.shape, np.float32)
ALIKE = np.float32(7e13) + np.float32(4e9) * APART
"""Numbers whose variance is less than what their squares lose."""


def of_squares(x: Term) -> Term:
    """A variance that may come out below zero."""
    return last("mean", x * x) - last("mean", x) * last("mean", x)


def of_differences(x: Term) -> Term:
    """A variance that never does."""
    difference = x - last("mean", x)
    return last("mean", difference * difference)


def norm(x: Term, variance: Callable[[Term], Term]) -> Term:
    return (x - last("mean", x)) / apply("sqrt", variance(x) + 1e-6)


@pytest.mark.parametrize(
    ("variance", "inputs", "open_"),
    [
        (of_squares, ALIKE, True),
        (of_squares, APART, False),
        (of_differences, ALIKE, False),
        (lambda x: apply("maximum", of_squares(x), literal(0)), ALIKE, False),
    ],
)
def test_the_sign_of_what_a_root_is_taken_of_may_be_mere_rounding(
    variance: Callable[[Term], Term], inputs: Array, open_: bool
) -> None:
    assert is_left_to_rounding(over(X)(norm(X, variance)), [inputs]) is open_


def test_a_value_of_which_noise_says_nothing_is_taken_as_it_is() -> None:
    """A softmax of scores of 1e13 has no noise that tells; what follows it has."""
    shares = apply("exp", X - last("max", X))
    shifted = over(X)(norm(shares / last("sum", shares), of_differences))
    assert not is_left_to_rounding(shifted, [ALIKE])
    alike = over(X)(norm(X + shares / last("sum", shares), of_squares))
    assert is_left_to_rounding(alike, [ALIKE])


@pytest.mark.parametrize(
    ("variance", "status"),
    [(of_squares, FloatStatus.SKIPPED), (of_differences, FloatStatus.FAILED)],
)
def test_what_is_no_number_is_wrong_only_where_the_original_is_one_without_luck(
    variance: Callable[[Term], Term], status: FloatStatus
) -> None:
    """All rows are alike, and so one sign decides of all elements."""
    side = ExecutedProgram(over(X)(norm(X, variance)))
    truth = side.truth([ALIKE])
    finite = [np.asarray(truth[0].value, np.float32)]
    nowhere = [np.full(X.shape, np.nan, np.float32)]
    trial = compare_outputs(side, lambda: [ALIKE], finite, nowhere, truth, "alike", False)
    assert trial.status is status, trial
