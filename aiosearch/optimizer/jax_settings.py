"""The thread-local settings of jax that a trace depends on, captured and restored.

settings = current_settings()
with use_settings(settings):      # in another thread, or later
    jax.make_jaxpr(f)(x)          # is the jaxpr that it would have been then
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any, NamedTuple

import jax


class JaxSettings(NamedTuple):
    """Settings of jax under whose other values a function may be another one."""

    default_device: Any
    default_matmul_precision: str | None
    disable_jit: bool
    enable_x64: bool
    numpy_dtype_promotion: str
    numpy_rank_promotion: str
    default_prng_impl: str
    threefry_partitionable: bool
    random_seed_offset: int
    """Recorded and not restored: jax has no way to set it for one thread."""

    def described(self) -> tuple[str, ...]:
        """The settings that are not the usual ones and that answers depend on, for `Key.settings`;
        XLA's flags are among them."""
        parts = {
            "x64": self.enable_x64,
            f"matmul precision {self.default_matmul_precision}": self.default_matmul_precision,
            f"{self.numpy_dtype_promotion} promotion": self.numpy_dtype_promotion != "standard",
            f"XLA_FLAGS={os.environ.get('XLA_FLAGS')}": os.environ.get("XLA_FLAGS"),
        }
        return tuple(text for text, is_set in parts.items() if is_set)


def current_settings() -> JaxSettings:
    """The settings of this thread, now."""
    config: Any = jax.config
    return JaxSettings(*(getattr(config, f"jax_{name}") for name in JaxSettings._fields))


def default_device() -> object:
    """Where this thread's arrays come to that lie nowhere yet; none where that is not set."""
    return getattr(jax.config, "jax_default_device")  # noqa: B009  # which has no type


def use_settings(settings: JaxSettings) -> ExitStack:
    """A context in which this thread has the settings of another one, or of another moment."""
    stack = ExitStack()
    stack.enter_context(jax.enable_x64(settings.enable_x64))
    stack.enter_context(jax.disable_jit(settings.disable_jit))
    stack.enter_context(jax.default_matmul_precision(settings.default_matmul_precision))
    stack.enter_context(jax.numpy_dtype_promotion(settings.numpy_dtype_promotion))
    stack.enter_context(jax.numpy_rank_promotion(settings.numpy_rank_promotion))
    stack.enter_context(jax.default_prng_impl(settings.default_prng_impl))
    stack.enter_context(jax.threefry_partitionable(settings.threefry_partitionable))
    stack.enter_context(jax.default_device(settings.default_device))
    return stack
