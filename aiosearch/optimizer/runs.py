"""How a call reaches the pieces, with as little Python on the way as can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from .made_for import MadeFor
from .splice.splicing import Packs, Spliced

ENOUGH = 16
"""Calls in a row that a function was made for, after which the next one is trusted again."""
OTHER: Any = object()
"""Stands for the result of a call that the function was not made for."""


def runs(spliced: Spliced, made_for: MadeFor) -> Looking | Trusting:
    """The fastest way of running calls that tells them apart safely."""
    cut = spliced.cut
    one_place = jax.default_backend() == "cpu" and jax.device_count() == 1 and made_for.is_usual
    looked_at = cut.call.static or cut.constant or not one_place
    return Looking(spliced, made_for) if looked_at else Trusting(spliced, made_for)


class Looking:
    """Looks at each call; arrays that were packed are used as long as they are the same ones."""

    def __init__(self, spliced: Spliced, made_for: MadeFor) -> None:
        cut = spliced.cut
        self._spliced = spliced
        self._made_for = made_for
        self._held = cut.held
        self._always = spliced.packs({})
        self._packs = spliced.packs(self._held)
        self._run = jax.jit(_named(spliced, self._flat))

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
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

    def _flat(self, packs: Packs, leaves: Sequence[Any]) -> Any:
        return _result(self._spliced, leaves, packs)


class Trusting:
    """Looks at a call when jax traces it, as the cache of jax tells it from other ones.

    So a call takes hardly more Python than one of `jax.jit`.
    """

    def __init__(self, spliced: Spliced, made_for: MadeFor) -> None:
        self._spliced = spliced
        self._made_for = made_for
        self._call = spliced.cut.call
        self._packs = spliced.packs({})
        self._run = jax.jit(_named(spliced, self._looking))
        self._trusting, self._fitting = True, 0

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
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

    def _looking(self, packs: Packs, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        leaves = self._made_for.leaves(args, kwargs)
        if leaves is None:
            raise _OtherCallError
        return _result(self._spliced, leaves, packs)


class _OtherCallError(Exception):
    """A call that the function was not made for."""


def _result(spliced: Spliced, leaves: Sequence[Any], packs: Packs) -> Any:
    """What the pieces give; where none is replaced, the function itself."""
    if spliced.replacements:
        return spliced.tree(leaves, packs)
    return spliced.cut.call.run(leaves)


def _named(spliced: Spliced, run: Callable[..., Any]) -> Callable[..., Any]:
    """Gives it the original's name, which profiles show."""

    def named(*arguments: Any) -> Any:
        return run(*arguments)

    named.__name__ = getattr(spliced.cut.function, "__name__", named.__name__)
    return named
