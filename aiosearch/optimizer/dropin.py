"""The callable that is handed back: fast where it was made for, the original everywhere else."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

import jax
import jax.numpy as jnp

from .report import Report
from .splice.cutting import Cut
from .splice.splicing import Spliced

P = ParamSpec("P")
R = TypeVar("R")

_SETTINGS = (
    "jax_default_device",
    "jax_default_matmul_precision",
    "jax_disable_jit",
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
)
"""Under another value of these, the function may be another one."""


class Optimized(Generic[P, R]):
    """A function that runs as it was optimized where a call is of the kind that it was made for.

    That is the same tree of arguments, shapes, element types, weak types, static arguments, kind
    of device and settings of jax; concrete arrays and tracers alike. Every other call, and every
    derivative and batch, runs the original.
    """

    __wrapped__: Callable[P, R]

    def __init__(self, spliced: Spliced, *, source: str = "", report: Report | None = None) -> None:
        self.report = report
        """What the optimizer has to say about it."""
        self._source = source
        self._spliced = spliced
        self._made_for = _MadeFor(spliced.cut)
        self._runs = _Runs(spliced)
        functools.update_wrapper(self, spliced.cut.function)

    @property
    def original(self) -> Callable[P, R]:
        """The function that was optimized."""
        return self._spliced.cut.function

    @property
    def spliced(self) -> Spliced:
        """The function in pieces, and what runs in their place."""
        return self._spliced

    def source(self) -> str:
        """The code that runs in the place of the original, which stands alone."""
        return self._source

    def takes(self, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether a call is of the kind that it was made for."""
        return self._made_for.leaves(args, kwargs) is not None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        leaves = self._made_for.leaves(args, kwargs) if self._spliced.replacements else None
        if leaves is None:
            return self.original(*args, **kwargs)
        return self._runs(leaves)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<optimized {getattr(self, '__qualname__', self.original)}>"


class _MadeFor:
    """Tells the calls that a function was optimized for from all others."""

    def __init__(self, cut: Cut) -> None:
        self._call = cut.call
        self._avals = cut.avals
        self._settings = _settings()
        self._concrete = type(jnp.zeros(()))
        self._places = [_place(one) for one in cut.examples]
        self._kind = _kind(next((one for one in self._places if one is not None), None))
        self._met: list[tuple[Any, Any]] = [(None, None)] * len(cut.avals)
        """For each leaf the last type and place that fitted: mostly the next one's very own."""

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
        """The arrays of a call, if it is one of those."""
        leaves = self._call.leaves(args, kwargs)
        if leaves is None or _settings() != self._settings:
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


class _Runs:
    """Runs the pieces, compiled; with packed arrays as long as they are the ones that were."""

    def __init__(self, spliced: Spliced) -> None:
        cut = spliced.cut
        self._held = {
            at: cut.examples[at] for at in sorted(cut.constant) if _is_array(cut.examples[at])
        }
        self._always = spliced.packs({})
        self._packs = spliced.packs(self._held) if self._held else self._always
        self._run = jax.jit(_named(spliced))

    def __call__(self, leaves: Sequence[Any]) -> Any:
        packs = self._packs
        for at, array in self._held.items():
            if leaves[at] is not array:
                packs = self._always
                break
        return self._run(packs, *leaves)


def _named(spliced: Spliced) -> Callable[..., Any]:
    """A function that profiles show under the original's name."""

    def run(packs: Any, *leaves: Any) -> Any:
        return jax.tree_util.tree_unflatten(spliced.cut.tree, spliced.flat(leaves, packs))

    run.__name__ = getattr(spliced.cut.function, "__name__", run.__name__)
    return run


def _settings() -> tuple[Any, ...]:
    config: Any = jax.config
    return tuple(getattr(config, name) for name in _SETTINGS)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)


def _place(leaf: Any) -> jax.sharding.Sharding | None:
    """Where an array lies, where that is known: not for tracers, nor for numbers."""
    return leaf.sharding if _is_array(leaf) else None


def _kind(place: jax.sharding.Sharding | None) -> tuple[str, str, str | None] | None:
    """The kind of the one device; nothing for several of them."""
    if place is None:
        place = jnp.zeros(()).sharding
    if len(place.device_set) != 1:
        return None
    device: Any = next(iter(place.device_set))
    return device.platform, device.device_kind, place.memory_kind
