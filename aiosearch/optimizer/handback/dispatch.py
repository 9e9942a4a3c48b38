"""Dispatch of a call: whether it is of the kind that was optimized, and how it reaches the
compiled pieces with little Python.

What a function was optimized for, and whether a call is of that kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import numpy as np

from ...capture.jax_types import Function, Leaf, PyTree
from ..jax_settings import current_settings, use_settings
from ..trace.splice import Packs, Spliced
from ..trace.traced import CutFunction, array_sharding, is_array


class CallGuard:
    """Tells the calls that a function was optimized for from all others.

    `device` is where the arrays lie that it is for, if what it was traced with lies nowhere.
    """

    def __init__(self, cut: CutFunction, device: jax.Device | None = None) -> None:
        self._call = cut.call
        self._avals = cut.avals
        self._settings = cut.settings
        self._places = cut.places
        with use_settings(cut.settings):
            usual, meant = _scalar(), _scalar(device)
        self._concrete = type(usual)
        sharding = next((place for place in cut.places if place is not None), meant.sharding)
        self._kind = _kind(sharding)
        self.is_usual = self._kind in (None, _kind(usual.sharding))
        """Whether arrays that lie nowhere yet come to that kind of device."""
        self._met: list[tuple[object, object]] = [(None, None)] * len(cut.avals)
        """For each leaf the last type and place that fitted: mostly the next one's very own."""

    @property
    def kind(self) -> object:
        """Equal for two that are for the same calls."""
        call = self._call
        static = {at: (type(value), value) for at, value in call.static.items()}
        form = static, call.count, call.keywords, call.tree
        return form, self._avals, self._places, self._settings

    def leaves(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> list[Leaf] | None:
        """The arrays of a call, if it is one of those."""
        leaves = self._call.leaves(args, kwargs)
        if leaves is None or current_settings() != self._settings:
            return None
        for at, leaf in enumerate(leaves):
            if type(leaf) is self._concrete:
                aval, place = self._met[at]
                if leaf.aval is aval and leaf.sharding is place:
                    continue
            if not self._fits(at, leaf):
                return None
        return leaves if self.is_usual or any(map(is_array, leaves)) else None

    def _fits(self, at: int, leaf: Leaf) -> bool:
        if isinstance(leaf, np.ndarray) and not leaf.dtype.isnative:
            return False
        try:
            aval = jax.typeof(leaf)
        except (TypeError, ValueError, OverflowError):
            return False
        if aval != self._avals[at]:
            return False
        sharding = array_sharding(leaf)
        if sharding is None:
            return True
        if sharding != self._places[at] and (self._kind is None or _kind(sharding) != self._kind):
            return False
        self._met[at] = leaf.aval, sharding
        return True


def _scalar(device: jax.Device | None = None) -> jax.Array:
    """An array as it is made here; nothing is compiled for it, which would take long."""
    scalar: jax.Array = jax.device_put(np.zeros(()), device)
    return scalar


def _kind(place: jax.sharding.Sharding) -> tuple[str, str, str | None] | None:
    """The kind of the one device; nothing for several of them."""
    if len(place.device_set) != 1:
        return None
    device: jax.Device = next(iter(place.device_set))
    return device.platform, device.device_kind, place.memory_kind


ENOUGH = 16
"""Calls in a row that a function was made for, after which the next one is trusted again."""
OTHER: PyTree = object()
"""Stands for the result of a call that the function was not made for."""


def dispatcher(spliced: Spliced, made_for: CallGuard) -> CheckedDispatch | TrustingDispatch:
    """The fastest way of running calls that tells them apart safely."""
    cut = spliced.cut
    one_place = jax.default_backend() == "cpu" and jax.device_count() == 1 and made_for.is_usual
    looked_at = cut.call.static or cut.constant or not one_place
    return CheckedDispatch(spliced, made_for) if looked_at else TrustingDispatch(spliced, made_for)


class CheckedDispatch:
    """Looks at each call; arrays that were packed are used as long as they are the same ones."""

    def __init__(self, spliced: Spliced, made_for: CallGuard) -> None:
        cut = spliced.cut
        self._spliced = spliced
        self._made_for = made_for
        self._held = cut.held
        self._always = spliced.packs({})
        self._packs = spliced.packs(self._held)
        self._run = jax.jit(_named(spliced, self._flat))

    def __call__(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> PyTree:
        """What the call gives, or `OTHER`."""
        leaves = self._made_for.leaves(args, kwargs)
        if leaves is None:
            return OTHER
        packs = self._packs
        for at, array in self._held.items():
            if leaves[at] is not array:
                packs = self._always
                break
        return self._run(packs, leaves)

    def _flat(self, packs: Packs, leaves: Sequence[Leaf]) -> PyTree:
        return _result(self._spliced, leaves, packs)


class TrustingDispatch:
    """Looks at a call when jax traces it, as the cache of jax tells it from other ones.

    So a call takes hardly more Python than one of `jax.jit`.
    """

    def __init__(self, spliced: Spliced, made_for: CallGuard) -> None:
        self._spliced = spliced
        self._made_for = made_for
        self._call = spliced.cut.call
        self._packs = spliced.packs({})
        self._run = jax.jit(_named(spliced, self._looking))
        self._trusting, self._fitting = True, 0

    def __call__(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> PyTree:
        """What the call gives, or `OTHER`."""
        if self._trusting and self._call.usual(args, kwargs):
            try:
                return self._run(self._packs, args, kwargs)
            except (_OtherCallError, TypeError, ValueError, OverflowError):
                # Tracing in vain costs more than looking at each call.
                self._trusting, self._fitting = False, 0
        leaves = self._made_for.leaves(args, kwargs)
        if leaves is None:
            self._fitting = 0
            return OTHER
        self._fitting += 1
        self._trusting = self._trusting or self._fitting >= ENOUGH
        positional, named = self._call.arguments(leaves)
        return self._run(self._packs, tuple(positional), named)

    def _looking(
        self, packs: Packs, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ) -> PyTree:
        leaves = self._made_for.leaves(args, kwargs)
        if leaves is None:
            raise _OtherCallError
        return _result(self._spliced, leaves, packs)


class _OtherCallError(Exception):
    """A call that the function was not made for."""


def _result(spliced: Spliced, leaves: Sequence[Leaf], packs: Packs) -> PyTree:
    """What the pieces give; where none is replaced, the function itself."""
    if spliced.replacements:
        return spliced.tree(leaves, packs)
    return spliced.cut.call.run(leaves)


def _named(spliced: Spliced, run: Function) -> Function:
    """Gives it the original's name, which profiles show."""

    def named(*arguments: Leaf) -> PyTree:
        return run(*arguments)

    named.__name__ = getattr(spliced.cut.function, "__name__", named.__name__)
    return named
