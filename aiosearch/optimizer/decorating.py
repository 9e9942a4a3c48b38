"""Functions that are optimized for each kind of call when it is first made."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

import jax

from .._waiting import loop_is_running
from ..errors import AiosearchError
from .dropin import Optimized
from .optimizing import optimize, optimize_sync
from .runs import OTHER

P = ParamSpec("P")
R = TypeVar("R")


@overload
def optimized(function: Callable[P, R], /) -> OptimizedOnCall[P, R]: ...
@overload
def optimized(**options: Any) -> Callable[[Callable[P, R]], OptimizedOnCall[P, R]]: ...
def optimized(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Decorates a function so that it is optimized when it is called; takes what `optimize` takes.

    A kind of call is a tree of arguments with its shapes, element types and static arguments. The
    first call of each kind, with concrete arrays, waits until the answer is there: it is searched
    once, and remembered for other processes. In an event loop nothing waits: await `.optimize(...)`
    before, until when the original runs.
    """
    if function is None:
        return lambda given: OptimizedOnCall(given, options)
    return OptimizedOnCall(function, options)


class OptimizedOnCall(Generic[P, R]):
    """A function, and what was found for the kinds of calls that were made."""

    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R], options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self._found: list[Optimized[P, R]] = []
        self._tried: set[Any] = set()
        self._lock = threading.Lock()
        self._warned = False
        functools.update_wrapper(self, function)

    @property
    def original(self) -> Callable[P, R]:
        """The function that is optimized."""
        return self.__wrapped__

    @property
    def found(self) -> tuple[Optimized[P, R], ...]:
        """What was found, one for each kind of call."""
        return tuple(self._found)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        for one in self._found:
            found = one.attempt(args, kwargs)
            if found is not OTHER:
                return found  # type: ignore[no-any-return]
            if one.takes(*args, **kwargs):
                return self.original(*args, **kwargs)
        made = self._first(args, kwargs)
        return self.original(*args, **kwargs) if made is None else made(*args, **kwargs)

    async def optimize(self, *args: P.args, **kwargs: P.kwargs) -> Optimized[P, R]:
        """Finds what is faster for calls like this one, which then take it."""
        given: dict[str, Any] = {**self._options, **kwargs}
        made = await optimize(self.original, *args, **given)
        self._found.append(made)
        return made

    def _first(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Optimized[P, R] | None:
        """What is found now for a kind of call, if anything can be."""
        kind = _kind(args, kwargs)
        if kind is None or kind in self._tried:
            return None
        if loop_is_running():
            self._warn(
                "is called in an event loop and so runs as it is; for this kind of call await"
                " its .optimize(...) with these arguments"
            )
            return None
        with self._lock:
            if kind in self._tried:
                return None
            self._tried.add(kind)
            try:
                made = optimize_sync(self.original, *args, **self._options, **kwargs)
            except AiosearchError as error:
                self._warn(f"runs as it is: {error}")
                return None
            self._found.append(made)
            return made

    def _warn(self, told: str) -> None:
        if not self._warned:
            self._warned = True
            name = getattr(self, "__qualname__", repr(self.original))
            warnings.warn(f"{name} {told}", RuntimeWarning, stacklevel=4)

    def __repr__(self) -> str:
        return f"<optimized on call: {getattr(self, '__qualname__', self.original)}>"


def _kind(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What two calls share that one answer is for; nothing where one is being traced."""
    leaves, tree = jax.tree_util.tree_flatten((tuple(args), dict(kwargs)))
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return None
    return tree, tuple(map(_like, leaves))


def _like(leaf: Any) -> Any:
    """An array by its type; a number or anything else, which may be static, by its value."""
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return jax.typeof(leaf)
    return type(leaf), repr(leaf)
