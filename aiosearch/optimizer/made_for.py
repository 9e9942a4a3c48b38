"""What a function was optimized for, and whether a call is of that kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .settings import settings, under
from .splice.cutting import Cut, is_array, place


class MadeFor:
    """Tells the calls that a function was optimized for from all others.

    `device` is where the arrays lie that it is for, if what it was traced with lies nowhere.
    """

    def __init__(self, cut: Cut, device: Any = None) -> None:
        self._call = cut.call
        self._avals = cut.avals
        self._settings = cut.settings
        self._places = cut.places
        with under(cut.settings):
            usual, meant = _scalar(), _scalar(device)
        self._concrete = type(usual)
        known = next((one for one in cut.places if one is not None), meant.sharding)
        self._kind = _kind(known)
        self.is_usual = self._kind in (None, _kind(usual.sharding))
        """Whether arrays that lie nowhere yet come to that kind of device."""
        self._met: list[tuple[Any, Any]] = [(None, None)] * len(cut.avals)
        """For each leaf the last type and place that fitted: mostly the next one's very own."""

    @property
    def kind(self) -> Any:
        """Equal for two that are for the same calls."""
        call = self._call
        static = {at: (type(value), value) for at, value in call.static.items()}
        form = static, call.count, call.keywords, call.tree
        return form, self._avals, self._places, self._settings

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
        return leaves if self.is_usual or any(map(is_array, leaves)) else None

    def _fits(self, at: int, leaf: Any) -> bool:
        if isinstance(leaf, np.ndarray) and not leaf.dtype.isnative:
            return False
        try:
            aval = jax.typeof(leaf)
        except (TypeError, ValueError, OverflowError):
            return False
        if aval != self._avals[at]:
            return False
        own = place(leaf)
        if own is None:
            return True
        if own != self._places[at] and (self._kind is None or _kind(own) != self._kind):
            return False
        self._met[at] = leaf.aval, own
        return True


def _scalar(device: Any = None) -> jax.Array:
    """An array as it is made here; nothing is compiled for it, which would take long."""
    scalar: jax.Array = jax.device_put(np.zeros(()), device)
    return scalar


def _kind(place: jax.sharding.Sharding) -> tuple[str, str, str | None] | None:
    """The kind of the one device; nothing for several of them."""
    if len(place.device_set) != 1:
        return None
    device: Any = next(iter(place.device_set))
    return device.platform, device.device_kind, place.memory_kind
