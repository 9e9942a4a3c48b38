"""Programs that choose and count by computed places, judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.capture import capture
from aiosearch.equivalence import Status, compare_fields, verify
from aiosearch.equivalence.rounding.noise import Noise, NoisyArray, exactly
from aiosearch.tensor import Program

X, PLACES = jax.ShapeDtypeStruct((6, 5), "float32"), jax.ShapeDtypeStruct((6,), "int32")


def program(function: Callable[..., Any]) -> Program:
    return capture(function, X, PLACES).program


def chosen(x: Any, i: Any) -> Any:
    return jnp.take_along_axis(x, i[:, None], 1, mode="clip")[:, 0]


def by_mask(x: Any, i: Any) -> Any:
    inside = jnp.clip(jnp.where(i < 0, i + 5, i), 0, 4)
    return jnp.sum(jnp.where(inside[:, None] == jnp.arange(5), x, 0), 1)


def added(x: Any, i: Any) -> Any:
    return jax.ops.segment_sum(x, i, 4)


def added_by_mask(x: Any, i: Any) -> Any:
    mask = i[:, None, None] == jnp.arange(4)[:, None]
    return jnp.sum(jnp.where(mask, x[:, None, :], 0), 0)


def label_loss(x: Any, labels: Any) -> Any:
    """The loss with integer labels, where what is outside of a row is NaN."""
    return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1).mean()


def log_total(x: Any) -> Any:
    largest = jax.lax.stop_gradient(x.max(1, keepdims=True))
    return jnp.log(jnp.exp(x - largest).sum(1)) + largest[:, 0]


def label_loss_of_totals(x: Any, labels: Any) -> Any:
    return (log_total(x) - x[jnp.arange(6), labels]).mean()


def label_loss_of_shifted(x: Any, labels: Any) -> Any:
    shifted = x - log_total(x)[:, None]
    return -jnp.take_along_axis(shifted, labels[:, None], 1).mean()


def clipped_label_loss(x: Any, labels: Any) -> Any:
    return (log_total(x) - chosen(x, labels)).mean()


EQUAL = {
    "elements and masked sums": (chosen, by_mask),
    "segments and masked sums": (added, added_by_mask),
    "the last of running sums and the sum": (
        lambda x, i: jnp.cumsum(x, 1)[:, -1],
        lambda x, i: jnp.sum(x, 1),
    ),
    "the largest and the least of the negative": (
        lambda x, i: jnp.argmax(-x, 1),
        lambda x, i: jnp.argmin(x, 1),
    ),
}

LOSSES = {
    "the loss by a softmax and by its total": (label_loss, label_loss_of_totals),
    "the loss, NaN outside of a row, and moved inside": (label_loss, clipped_label_loss),
    "gradients": (jax.grad(label_loss), jax.grad(label_loss_of_shifted)),
}
"""The most usual loss, which jax makes NaN where a label is outside of a row."""

DIFFERENT = {
    "the next element": (chosen, lambda x, i: chosen(x, i + 1)),
    "running sums from both ends": (
        lambda x, i: jnp.cumsum(x, 1),
        lambda x, i: jax.lax.cumsum(x, 1, reverse=True),
    ),
    "the largest and the least": (lambda x, i: jnp.argmax(x, 1), lambda x, i: jnp.argmin(x, 1)),
    "other segments": (added, lambda x, i: added(x, i + 1)),
}


@pytest.mark.parametrize("name", EQUAL)
def test_what_is_chosen_by_place_is_proved_by_comparisons(name: str) -> None:
    left, right = map(program, EQUAL[name])
    assert verify(left, right).status is Status.PROVED


@pytest.mark.parametrize("name", LOSSES)
def test_losses_with_integer_labels_are_judged(name: str) -> None:
    left, right = map(program, LOSSES[name])
    verdict = verify(left, right)
    assert verdict.status.accepted, verdict.reason
    assert verdict.fields is not None
    assert verdict.fields.outcome == "agree"


def test_a_loss_agrees_with_itself_in_fields() -> None:
    loss = program(label_loss)
    assert compare_fields(loss, loss, seed=0).outcome == "agree"


def test_a_loss_that_is_nan_where_the_original_is_not_is_no_substitute() -> None:
    """Labels outside of a row have a loss in the original, that of the nearest label."""
    verdict = verify(program(clipped_label_loss), program(label_loss), floats=False)
    assert not verdict.status.accepted


def test_what_is_nan_is_asked_for_where_that_is_said() -> None:
    left, right = program(label_loss), program(clipped_label_loss)
    assert not verify(left, right, strict=True, floats=False).status.accepted


def test_a_choice_of_labels_is_a_proof_for_all_numbers_of_classes() -> None:
    verdict = verify(program(label_loss), program(label_loss_of_totals))
    assert verdict.status is Status.PROVED


def test_labels_that_are_counted_otherwise_are_no_proof() -> None:
    shifted = program(lambda x, i: label_loss_of_totals(x, i + 1))
    assert not verify(program(label_loss), shifted).status.accepted


@pytest.mark.parametrize("name", DIFFERENT)
def test_other_places_are_refuted(name: str) -> None:
    left, right = map(program, DIFFERENT[name])
    assert verify(left, right).status is Status.REFUTED


def test_a_place_is_unsure_where_noise_makes_another_element_the_largest() -> None:
    value = np.array([[1.0, 1.5, 3.0], [1.0, 2.9, 3.0]])
    places = Noise(0.0, 0.0).argmax(NoisyArray(value, np.full((2, 3), 0.1)), 1)
    assert places.value.ravel().tolist() == [2, 2]
    assert places.unsure.ravel().tolist() == [False, True]


def test_an_element_is_unsure_where_its_place_is() -> None:
    places = NoisyArray(np.array([[0.0], [1.0]]), np.array([[0.0], [np.inf]]))
    found = Noise(0.0, 0.0).take(exactly(np.eye(2)), places, 1)
    assert found.value.ravel().tolist() == [1, 1]
    assert found.unsure.ravel().tolist() == [False, True]
