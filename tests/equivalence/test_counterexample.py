"""Counterexamples are found where functions differ, replay, and are never made of rounding."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from testkit.programs.float_pairs import RIGHT, WRONG, elementwise, over, rms_norm

from aiosearch.equivalence.counterexample import CounterexampleKind, find_counterexample
from aiosearch.tensor import ShapeError, Term, apply, referee, tensor

TYPES = ("f16", "f32", "f64")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_right_rewrite_has_no_counterexample(name: str, dtype: str, seed: int) -> None:
    a, b = RIGHT[name](dtype)
    assert find_counterexample(a, b, seed=seed) is None
    if name != "silu":
        assert find_counterexample(b, a, seed=seed) is None


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rewrite_is_refuted_on_the_first_draw_and_replays(name: str, dtype: str) -> None:
    a, b = WRONG[name](dtype)
    found = find_counterexample(a, b, seed=3)
    assert found is not None
    assert (found.kind, found.distribution, found.seed) == (CounterexampleKind.VALUE, "normal", 3)
    assert found.replay(a, b)
    assert not found.replay(a, a)


def test_a_counterexample_holds_small_inputs_that_show_it_in_the_referee() -> None:
    a, b = elementwise(lambda x: x * x, lambda x: x * 2, shape=(3, 3))
    found = find_counterexample(a, b)
    assert found is not None
    assert found.inputs is not None
    (ours,), (theirs,) = referee.run(a, found.inputs), referee.run(b, found.inputs)
    assert ours[found.index] == found.expected
    assert theirs[found.index] == found.found


def test_a_counterexample_of_large_inputs_is_a_recipe() -> None:
    a, b = rms_norm("f32", "mean")
    found = find_counterexample(a, b)
    assert found is not None
    assert found.inputs is None
    assert "inputs" not in found.to_dict()


def test_a_counterexample_is_json() -> None:
    a, b = elementwise(lambda x: x, lambda x: x * x / x, shape=(3,))
    found = find_counterexample(a, b)
    assert found is not None
    written = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert written["found"] == "nan"
    assert len(written["inputs"][0]) == 3
    assert "output 0 at" in str(found)


DOMAIN: dict[str, Callable[[Term], Term]] = {
    "a quotient at zero": lambda x: x * x / x,
    "a product of roots at negatives": lambda x: apply("sqrt", x) * apply("sqrt", x),
    "the exponential of a logarithm": lambda x: apply("exp", apply("log", x)),
    "a square root of a square is right": lambda x: x + 0 * apply("sqrt", x),
}


@pytest.mark.parametrize("name", DOMAIN)
def test_a_rewrite_that_leaves_the_domain_is_refuted(name: str) -> None:
    a, b = elementwise(lambda x: x, DOMAIN[name])
    found = find_counterexample(a, b)
    assert found is not None
    assert found.kind is CounterexampleKind.DOMAIN
    assert np.isfinite(found.expected)
    assert not np.isfinite(found.found)
    assert found.replay(a, b)


def test_a_logarithm_of_an_exponential_overflows_in_its_own_type() -> None:
    a, b = elementwise(lambda x: x, lambda x: apply("log", apply("exp", x)))
    found = find_counterexample(a, b)
    assert found is not None
    assert found.distribution == "large"
    assert found.replay(a, b)


def test_a_softmax_without_its_maximum_is_refuted_by_overflow() -> None:
    def softmax(x: Term, top: Term | int) -> Term:
        e = apply("exp", x - top)
        return e / apply("sum", e, axes=(1,), keep=True)

    a, b = elementwise(
        lambda x: softmax(x, apply("max", x, axes=(1,), keep=True)), lambda x: softmax(x, 0)
    )
    found = find_counterexample(a, b)
    assert found is not None
    assert found.distribution == "large"
    assert find_counterexample(b, a) is None


def test_an_overflow_in_half_precision_is_shown_in_half_precision() -> None:
    a, b = elementwise(lambda x: x, lambda x: (x * 30000) * 2 / 60000, dtype="f16")
    found = find_counterexample(a, b)
    assert found is not None
    assert found.kind is CounterexampleKind.OVERFLOW
    assert np.isinf(found.found)
    assert found.replay(a, b)
    wide = elementwise(lambda x: x, lambda x: (x * 30000) * 2 / 60000, dtype="f32")
    assert find_counterexample(*wide) is None


def test_a_difference_where_the_original_is_not_finite_counts_under_strict_only() -> None:
    a, b = elementwise(
        lambda x, y: apply("exp", apply("log", x) - apply("log", y)), lambda x, y: x / y, count=2
    )
    assert find_counterexample(a, b) is None
    found = find_counterexample(a, b, strict=True)
    assert found is not None
    assert found.kind is CounterexampleKind.STRICT
    assert found.replay(a, b)


def test_cancellation_is_not_taken_for_a_difference() -> None:
    """On pairs of opposite elements the sums are nothing but rounding."""
    x = tensor("X", "f32", (4, 64))
    make = over(x)
    cube = x * x * x
    halves = [apply("slice", cube, axis=1, start=start, stop=start + 32) for start in (0, 32)]
    parts = [apply("sum", half, axes=(1,)) for half in halves]
    a, b = make(apply("sum", cube, axes=(1,))), make(parts[0] + parts[1])
    assert find_counterexample(a, b) is None
    far = make((parts[0] + 1e8 + parts[1]) - 1e8)
    assert find_counterexample(a, far) is None


def test_a_small_difference_is_found_where_it_shows() -> None:
    def norm(x: Term, epsilon: float) -> Term:
        mean = apply("mean", x * x, axes=(1,), keep=True)
        return x / apply("sqrt", mean + epsilon)

    a, b = elementwise(lambda x: norm(x, 1e-5), lambda x: norm(x, 2e-5))
    found = find_counterexample(a, b)
    assert found is not None
    assert found.replay(a, b)


def test_a_swap_of_outputs_or_operands_is_found() -> None:
    x, y = tensor("X", "f32", (4, 4)), tensor("Y", "f32", (4, 4))
    make = over(x, y)
    swapped = find_counterexample(make(x + y, x - y), make(x - y, x + y))
    assert swapped is not None
    assert swapped.output == 0
    assert find_counterexample(make(x - y), make(y - x)) is not None
    assert find_counterexample(make(x + y), make(y + x)) is None


def test_the_inverse_of_an_overflow_is_no_difference() -> None:
    """Where exp overflows even in double precision, what is divided by it is lost."""
    x = tensor("X", "f64", (64,))
    line = apply("iota", shape=(64,), axis=0, dtype="f64") - 750
    make = over(x)
    e = apply("exp", line)
    a, b = line / (1 + apply("exp", -line)), line * e / (1 + e)
    assert find_counterexample(make(a + x * 0), make(b + x * 0)) is None


def test_a_comparison_decided_by_rounding_is_no_difference() -> None:
    x = tensor("X", "f32", (4, 16))
    make = over(x)
    third = x / 3
    a = apply("select", apply("less", third * 3, x), x, -x)
    b = apply("select", apply("less", x, third * 3), x, -x)
    assert find_counterexample(make(a), make(b)) is None
    exact = apply("select", apply("less", x, literal_zero := x * 0), x, literal_zero)
    assert find_counterexample(make(exact), make(apply("minimum", x, literal_zero))) is None


def test_functions_that_algebra_knows_nothing_of_are_measured() -> None:
    a, b = elementwise(lambda x: apply("tanh", x), lambda x: 2 * apply("sigmoid", 2 * x) - 1)
    assert find_counterexample(a, b) is None
    assert find_counterexample(
        *elementwise(lambda x: apply("gelu", x), lambda x: apply("gelu_tanh", x))
    )


def test_empty_programs_have_no_counterexample() -> None:
    x = tensor("X", "f32", (0, 4))
    assert find_counterexample(over(x)(x * 2), over(x)(x * 3)) is None


def test_programs_that_do_not_fit_are_refused() -> None:
    x = tensor("X", "f32", (4,))
    y = tensor("X", "f16", (4,))
    with pytest.raises(ShapeError, match="other inputs"):
        find_counterexample(over(x)(x), over(y)(y))
