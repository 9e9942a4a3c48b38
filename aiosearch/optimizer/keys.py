"""Random keys, as `jax.random.key` makes them: numpy has no type for them, but for their bits."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def is_key(like: Any) -> bool:
    """Whether something with an element type holds keys."""
    return bool(jnp.issubdtype(like.dtype, jax.dtypes.prng_key))


def bits(array: Any) -> Any:
    """The bits of keys; anything else as it is."""
    return jax.random.key_data(array) if is_key(jax.typeof(array)) else array


def bits_type(like: Any) -> Any:
    """The shape and element type of `bits`, of something that has both."""
    spec = jax.ShapeDtypeStruct(like.shape, like.dtype)  # type: ignore[no-untyped-call]  # jax's
    return jax.eval_shape(jax.random.key_data, spec) if is_key(like) else spec


def of_bits(array: Any, like: Any) -> Any:
    """What `bits` were taken of, from them and something of its type."""
    if not is_key(like):
        return array
    return jax.random.wrap_key_data(array, impl=_kind(like))


def _kind(like: Any) -> Any:
    """How such keys are made; jax tells it of keys, and not of their type."""
    found: list[Any] = []
    jax.eval_shape(lambda key: found.append(jax.random.key_impl(key)), like)
    return found[0]
