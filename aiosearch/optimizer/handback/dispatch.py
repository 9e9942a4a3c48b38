"""Dispatch of a call: whether it is of the kind that was optimized, and how it reaches the compiled
pieces with little Python.

Problem: an answer holds for one set of shapes, types, static arguments, devices and jax settings.
Every call has to be told apart from others, but a call of 20 µs cannot afford 5 µs of Python.

Example: after `fast = await optimize(f, f32[8, 16])`, a call with f32[8, 16] runs the pieces, one
with f32[9, 16] or under `jax.enable_x64` runs `f`.

`CheckedDispatch` looks at each call with `CallGuard`. `TrustingDispatch` lets the cache of
`jax.jit` do that: jax traces once for each kind of call, and what is traced looks at the call and
raises for another kind. It is safe only where all that the guard looks at is in jax's cache key.
Where nothing is replaced no call has to be told apart: `compiled_original` is what `jax.jit` gives.

Invariant: a call that `CallGuard.leaves` refuses never runs a replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps

import jax
import numpy as np

from ...capture.jax_types import Function, Leaf, PyTree
from ..jax_settings import current_settings, use_settings
from ..trace.splice import Packs, Spliced
from ..trace.traced import CutFunction, array_sharding, is_array


class CallGuard:
    """Tells the calls that a function was optimized for from all others.

    `device` is that of its arrays, where no example was on a device.
    """

    def __init__(self, cut: CutFunction, device: jax.Device | None = None) -> None:
        self._call = cut.call
        self._avals = cut.avals
        self._settings = cut.settings
        self._places = cut.places
        with use_settings(cut.settings):
            usual, own_device = _scalar(), _scalar(device)
        self._concrete = type(usual)
        sharding = next((place for place in cut.places if place is not None), own_device.sharding)
        self._kind = _kind(sharding)
        self.is_usual = self._kind in (None, _kind(usual.sharding))
        """Whether arrays that are on no device yet are put on that kind of device by jax."""
        self._last_fitting: list[tuple[object, object]] = [(None, None)] * len(cut.avals)
        """For each leaf the last type and sharding that fitted: mostly those of the next call are
        the very same objects."""

    @property
    def kind(self) -> object:
        """Equal for two guards that are for the same calls."""
        call = self._call
        static = {at: (type(value), value) for at, value in call.static.items()}
        form = static, call.count, call.keywords, call.tree
        return form, self._avals, self._places, self._settings

    def leaves(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> list[Leaf] | None:
        """The arrays of a call, if it is one that the function was optimized for; else `None`."""
        leaves = self._call.leaves(args, kwargs)
        if leaves is None or current_settings() != self._settings:
            return None
        for at, leaf in enumerate(leaves):
            if type(leaf) is self._concrete:
                aval, place = self._last_fitting[at]
                # jax caches both, so that mostly two identities decide, not shapes and types.
                if leaf.aval is aval and leaf.sharding is place:
                    continue
            if not self._fits(at, leaf):
                return None
        return leaves if self.is_usual or any(map(is_array, leaves)) else None

    @property
    def concrete(self) -> type[PyTree]:
        """The type of an array that is there, and not traced."""
        return self._concrete

    def is_home(self, place: PyTree) -> bool:
        """Whether that is one device of the kind that the function was optimized for."""
        return self._kind is not None and _kind(place) == self._kind

    def _fits(self, at: int, leaf: PyTree) -> bool:
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
        self._last_fitting[at] = leaf.aval, sharding
        return True


def _scalar(device: jax.Device | None = None) -> jax.Array:
    """An array as it is made here; nothing is compiled for it, which would take long."""
    scalar: jax.Array = jax.device_put(np.zeros(()), device)
    return scalar


def _kind(place: jax.sharding.Sharding) -> tuple[str, str, str | None] | None:
    """The kind of the one device of a sharding; `None` for several devices."""
    if len(place.device_set) != 1:
        return None
    device: jax.Device = next(iter(place.device_set))
    return device.platform, device.device_kind, place.memory_kind


ENOUGH = 16
"""Calls in a row that a function was made for, after which the next one is trusted again."""
OTHER: PyTree = object()
"""Stands for the result of a call that the function was not made for."""


def dispatcher(spliced: Spliced, guard: CallGuard) -> CheckedDispatch | TrustingDispatch:
    """The fastest way of running calls that tells them apart safely."""
    cut = spliced.cut
    looked_at = cut.call.static or cut.constant or not guard.is_usual
    if looked_at:
        return CheckedDispatch(spliced, guard)
    one_place = jax.default_backend() == "cpu" and jax.device_count() == 1
    return TrustingDispatch(spliced, guard, None if one_place else Home(guard))


def _default_device() -> object:
    """The device that `jax.default_device` names at this time; `None` where nobody named one."""
    config: PyTree = jax.config  # its options are declared at run time
    return config.jax_default_device


class Home:
    """Tells by a look at each array whether a call's arrays lie where they are expected.

    Where there are several devices, as beside every GPU there is a processor, jax traces a call on
    one and has the trace ready for the same call on another: what is looked at while jax traces
    would be looked at once. Arrays of one place mostly share the object that says which, so this
    takes some forty nanoseconds for each, where flattening and comparing types takes microseconds.
    """

    def __init__(self, guard: CallGuard) -> None:
        self._guard = guard
        self._usual_device = _default_device()
        self._place: PyTree = None
        """The one that was met last."""

    def has(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> bool:
        """Whether all arguments are arrays that lie there; of trees of arrays it does not tell."""
        if kwargs or _default_device() is not self._usual_device:
            return False
        concrete, place = self._guard.concrete, self._place
        for value in args:
            if type(value) is not concrete:
                return False
            if value.sharding is not place:
                if not self._guard.is_home(value.sharding):
                    return False
                place = self._place = value.sharding
        return True


class CheckedDispatch:
    """Looks at each call; arrays that were packed are used as long as the call has the very same
    ones."""

    def __init__(self, spliced: Spliced, guard: CallGuard) -> None:
        cut = spliced.cut
        self._spliced = spliced
        self._guard = guard
        self._held = cut.held
        self._always = spliced.packs({})
        self._packs = spliced.packs(self._held)
        self._run = jax.jit(_named(spliced, self._flat))

    def __call__(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> PyTree:
        """The result of the call, or `OTHER`."""
        leaves = self._guard.leaves(args, kwargs)
        if leaves is None:
            return OTHER
        packs = self._packs
        for at, array in self._held.items():
            # A donated or replaced weight: what was packed of the old one must not be used.
            if leaves[at] is not array:
                packs = self._always
                break
        return self._run(packs, leaves)

    def _flat(self, packs: Packs, leaves: Sequence[Leaf]) -> PyTree:
        return _result(self._spliced, leaves, packs)


class TrustingDispatch:
    """Looks at a call when jax traces it, as the cache of jax tells it from other ones.

    So a call takes hardly more Python than one of `jax.jit`. Where there are several devices, it is
    trusted whose arrays are at `home`.

    `direct` spares the rest as well where nothing is packed and there is one device: it takes a
    call's own arguments, and raises one of `REFUSALS` for a call of another kind, which then is
    `refused`. It is there as long as calls are trusted, since each refusal is a trace in vain.
    """

    def __init__(self, spliced: Spliced, guard: CallGuard, home: Home | None = None) -> None:
        self._spliced = spliced
        self._guard = guard
        self._home = home
        self._call = spliced.cut.call
        self._packs = spliced.packs({})
        self._run = jax.jit(_named(spliced, self._checked))
        self._trusting, self._fitting = True, 0
        nothing_packed = not jax.tree_util.tree_leaves(self._packs)
        self._straight = (
            jax.jit(_named(spliced, self._spelled)) if nothing_packed and home is None else None
        )
        self.direct: Function | None = self._straight

    def __call__(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> PyTree:
        """What the call gives, or `OTHER`."""
        home = self._home
        if (
            self._trusting
            and self._call.usual(args, kwargs)
            and (home is None or home.has(args, kwargs))
        ):
            try:
                return self._run(self._packs, args, kwargs)
            except REFUSALS:
                self._distrust()
        return self._looked_at(args, kwargs)

    def refused(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> PyTree:
        """The result of a call that `direct` refused, or `OTHER`."""
        self._distrust()
        return self._looked_at(args, kwargs)

    def _distrust(self) -> None:
        """Has each call looked at from now on: tracing in vain costs more than that."""
        self._trusting, self._fitting, self.direct = False, 0, None

    def _looked_at(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> PyTree:
        leaves = self._guard.leaves(args, kwargs)
        if leaves is None:
            self._fitting = 0
            return OTHER
        self._fitting += 1
        if self._fitting >= ENOUGH:
            self._trusting, self.direct = True, self._straight
        positional, named = self._call.arguments(leaves)
        if self._straight is not None:
            return self._straight(*positional, **named)
        return self._run(self._packs, tuple(positional), named)

    def _spelled(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        # Another spelling of the same call would be compiled once more: it is put in order first.
        if not self._call.usual(args, kwargs):
            raise _OtherCallError
        return self._checked(self._packs, args, kwargs)

    def _checked(
        self, packs: Packs, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ) -> PyTree:
        leaves = self._guard.leaves(args, kwargs)
        if leaves is None:
            raise _OtherCallError
        return _result(self._spliced, leaves, packs)


class _OtherCallError(Exception):
    """A call that the function was not made for."""


REFUSALS = (_OtherCallError, TypeError, ValueError, OverflowError)
"""What `TrustingDispatch.direct` raises for calls that it was not made for: the last three are
jax's where it finds no type for an argument, and the function's own, which then come once more."""


def _result(spliced: Spliced, leaves: Sequence[Leaf], packs: Packs) -> PyTree:
    """The result of the pieces; where none is replaced, of the function itself."""
    if spliced.replacements:
        return spliced.tree(leaves, packs)
    return spliced.cut.call.run(leaves)


def compiled_original(cut: CutFunction) -> Callable[..., PyTree]:
    """The function as `jax.jit` compiles it, for any call: static arguments stay out of the trace.

    A function that is compiled already, or that donates its arguments, is given as it is: a `jit`
    around it would change when it compiles, or hold what it gives away.
    """
    function = cut.function
    if is_compiled(function) or cut.donates:
        return function
    static = cut.call.static
    places = [at for at in static if isinstance(at, int)]
    names = [name for name in static if isinstance(name, str)]
    with use_settings(cut.settings):
        # Without names jax finds those of the positions, for calls that give them by name.
        return jax.jit(
            _hashable(function), static_argnums=places or None, static_argnames=names or None
        )


def is_compiled(function: object) -> bool:
    """Whether it is what `jax.jit` gives, which needs nothing more."""
    return hasattr(function, "lower") and hasattr(function, "trace")


def _hashable(function: Function) -> Function:
    """The function itself, or a wrapper where it has no hash, which `jax.jit` asks for: an object
    need not have one."""
    try:
        hash(function)
    except TypeError:
        pass
    else:
        return function

    @wraps(function)
    def called(*args: PyTree, **kwargs: PyTree) -> PyTree:
        return function(*args, **kwargs)

    return called


def _named(spliced: Spliced, run: Function) -> Function:
    """The function with the original's name, which profiles show."""

    def named(*arguments: Leaf) -> PyTree:
        return run(*arguments)

    named.__name__ = getattr(spliced.cut.function, "__name__", named.__name__)
    return named
