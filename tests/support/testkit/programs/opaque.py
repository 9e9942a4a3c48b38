"""What the tensor language has no operator for, to part programs with."""

from __future__ import annotations

from functools import partial

from jax import lax

unread = partial(lax.reduce_precision, exponent_bits=8, mantissa_bits=23)
"""An operation that is left to JAX and changes no float32: `reduce_precision`, by its name."""
