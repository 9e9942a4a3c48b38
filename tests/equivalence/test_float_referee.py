"""The referee tells small programs apart, says equal of equal ones, and otherwise nothing."""

from __future__ import annotations

import pytest
from testkit.programs.float_pairs import RIGHT, WRONG, elementwise, over

from aiosearch.equivalence.float_referee import referee_differs
from aiosearch.tensor import ShapeError, Term, apply, tensor


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("seed", range(5))
def test_right_rewrites_are_equal(name: str, seed: int) -> None:
    for dtype in ("f16", "f32"):
        assert referee_differs(*RIGHT[name](dtype), seed=seed) is False


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("seed", range(5))
def test_wrong_rewrites_differ(name: str, seed: int) -> None:
    for dtype in ("f16", "f32"):
        assert referee_differs(*WRONG[name](dtype), seed=seed) is True


def test_a_difference_at_zero_alone_is_found() -> None:
    assert referee_differs(*elementwise(lambda x: x, lambda x: x * x / x)) is True
    pair = elementwise(lambda x: apply("less", x, x * 0), lambda x: apply("less_equal", x, x * 0))
    assert referee_differs(*pair) is True


def test_a_difference_at_negative_numbers_alone_is_found() -> None:
    root = elementwise(lambda x: x, lambda x: apply("sqrt", x * x))
    assert referee_differs(*root) is True
    assert (
        referee_differs(*elementwise(lambda x: apply("abs", x), lambda x: root[1].outputs[0]))
        is False
    )


def test_a_candidate_that_is_more_defined_is_equal() -> None:
    def logs(x: Term, y: Term) -> Term:
        return apply("exp", apply("log", x) - apply("log", y))

    assert referee_differs(*elementwise(logs, lambda x, y: x / y, count=2)) is False
    assert referee_differs(*elementwise(lambda x, y: x / y, logs, count=2)) is True


def test_a_program_that_is_never_finite_is_not_judged() -> None:
    nowhere = elementwise(lambda x: x / 0, lambda x: x * 2 / 0)
    assert referee_differs(*nowhere) is None


def test_a_difference_that_a_literal_could_make_is_not_judged() -> None:
    pair = elementwise(lambda x: x * 3, lambda x: x * 3 + x * 3 / 10**8)
    assert referee_differs(*pair) is None


def test_values_made_of_noise_are_not_judged() -> None:
    def noise(x: Term) -> Term:
        return (x * 3 - x) - x * 2

    pair = elementwise(lambda x: noise(x) * 1e12, lambda x: noise(x) * 2e12)
    assert referee_differs(*pair) is None


def test_outputs_that_are_zero_or_empty_are_equal() -> None:
    assert referee_differs(*elementwise(lambda x: x * 0, lambda x: x - x)) is False
    assert referee_differs(*elementwise(lambda x: x * 2, lambda x: x * 3, shape=(0, 4))) is False


def test_every_output_is_compared() -> None:
    x = tensor("X", "f32", (4,))
    make = over(x)
    assert referee_differs(make(x, x * 2), make(x, x * 3)) is True
    assert referee_differs(make(x, x * 2), make(x, x + x)) is False


def test_programs_of_other_shapes_are_refused() -> None:
    x = tensor("X", "f32", (4,))
    with pytest.raises(ShapeError, match="other outputs"):
        referee_differs(over(x)(x), over(x)(apply("sum", x, axes=(0,))))
