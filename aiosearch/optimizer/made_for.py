"""What a function was optimized for, and whether a call is of that kind."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from .splice.cutting import Cut, is_array


class Settings(NamedTuple):
    """Settings of jax under whose other values a function may be another one."""

    default_device: Any
    default_matmul_precision: str | None
    disable_jit: bool
    enable_x64: bool
    numpy_dtype_promotion: str

    def told(self) -> tuple[str, ...]:
        """Those that are not the usual ones and that answers depend on; XLA's flags are too."""
        parts = {
            "x64": self.enable_x64,
            f"matmul precision {self.default_matmul_precision}": self.default_matmul_precision,
            f"{self.numpy_dtype_promotion} promotion": self.numpy_dtype_promotion != "standard",
            f"XLA_FLAGS={os.environ.get('XLA_FLAGS')}": os.environ.get("XLA_FLAGS"),
        }
        return tuple(text for text, given in parts.items() if given)


def settings() -> Settings:
    """Those of this thread."""
    config: Any = jax.config
    return Settings(*(getattr(config, f"jax_{name}") for name in Settings._fields))


class MadeFor:
    """Tells the calls that a function was optimized for from all others."""

    def __init__(self, cut: Cut) -> None:
        self._call = cut.call
        self._avals = cut.avals
        self._settings = settings()
        self._concrete = type(_scalar())
        self._places = [_place(one) for one in cut.examples]
        self._kind = _kind(next((one for one in self._places if one is not None), None))
        self._met: list[tuple[Any, Any]] = [(None, None)] * len(cut.avals)
        """For each leaf the last type and place that fitted: mostly the next one's very own."""

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
        """The arrays of a call, if it is one of those."""
        leaves = self._call.leaves(args, kwargs)
        if leaves is None or settings() != self._settings:
            return None
        for at, leaf in enumerate(leaves):
            if type(leaf) is self._concrete:
                aval, place = self._met[at]
                if leaf.aval is aval and leaf.sharding is place:
                    continue
            if not self._fits(at, leaf):
                return None
        return leaves

    def _fits(self, at: int, leaf: Any) -> bool:
        try:
            aval = jax.typeof(leaf)
        except TypeError:
            return False
        if aval != self._avals[at]:
            return False
        place = _place(leaf)
        if place is None:
            return True
        if place != self._places[at] and (self._kind is None or _kind(place) != self._kind):
            return False
        self._met[at] = leaf.aval, place
        return True


def _scalar() -> jax.Array:
    """An array as it is made here; nothing is compiled for it, which would take long."""
    scalar: jax.Array = jax.device_put(np.zeros(()))
    return scalar


def _place(leaf: Any) -> jax.sharding.Sharding | None:
    """Where an array lies, where that is known: not for tracers, nor for numbers."""
    return leaf.sharding if is_array(leaf) else None


def _kind(place: jax.sharding.Sharding | None) -> tuple[str, str, str | None] | None:
    """The kind of the one device; nothing for several of them."""
    if place is None:
        place = _scalar().sharding
    if len(place.device_set) != 1:
        return None
    device: Any = next(iter(place.device_set))
    return device.platform, device.device_kind, place.memory_kind
