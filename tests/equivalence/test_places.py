"""Programs that choose and count by computed places, judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.capture import capture
from aiosearch.equivalence import Status, verify
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
