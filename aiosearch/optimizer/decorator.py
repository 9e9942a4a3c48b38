"""The `@optimized` decorator: optimizes a function at the first call of each kind."""

from __future__ import annotations

import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import ParamSpec, TypeVar, overload

from jax.tree_util import tree_leaves

from .._blocking import loop_is_running
from ..capture.jax_types import Function, Parameters, PyTree
from ..capture.names import shown
from ..errors import AiosearchError
from .call_kinds import call_kind, is_gone, is_traced
from .handback.dispatch import OTHER
from .handback.optimized import FunctionWrapper, Optimized
from .optimization import optimize, optimize_sync
from .options import demand_options

P = ParamSpec("P")
R = TypeVar("R")


@overload
def optimized(function: Callable[P, R], /) -> OptimizedOnCall[P, R]: ...
@overload
def optimized(**options: PyTree) -> Callable[[Callable[P, R]], OptimizedOnCall[P, R]]: ...
def optimized(function: Function | None = None, /, **options: PyTree) -> PyTree:
    """Decorates a function so that it is optimized when it is called; takes what `optimize` takes.

        @optimized(effort="quick")
        def attention(q, k, v): ...

    A kind of call (`call_kind`) is a tree of arguments with its shapes, element types and static
    arguments. The first call of each kind, with concrete arrays, waits until the answer is there:
    it is searched once, and remembered for other processes. In an event loop nothing waits: await
    `.optimize(...)` before, until when the original runs. A method's object is an argument like
    others: where it is no tree of arrays it has to be static; or leave the method as it is and give
    `optimize` that of one object. Raises `OptimizeError` for an option that cannot be one.
    """
    if function is None:
        return lambda decorated: OptimizedOnCall(decorated, options)
    return OptimizedOnCall(function, options)


class OptimizedOnCall(FunctionWrapper[P, R]):
    """A function, and what was found for the kinds of calls that were made."""

    def __init__(self, function: Callable[P, R], options: Parameters) -> None:
        demand_options(function, options)
        super().__init__(function)  # first: it may have these attributes
        self._options = dict(options)
        self._found: list[Optimized[P, R]] = []
        self._tried: dict[Hashable, Optimized[P, R] | None] = {}
        self._locks: defaultdict[Hashable, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()
        self._told: set[str] = set()

    @property
    def found(self) -> tuple[Optimized[P, R], ...]:
        """What was found, an `Optimized` for each kind of call."""
        return tuple(self._found)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        for candidate in reversed(self._found):  # the last first, where several take such a call
            result = candidate.attempt(args, kwargs)
            if result is not OTHER:
                return result  # type: ignore[no-any-return]  # it is no `OTHER`
            if candidate.takes(*args, **kwargs):
                return self.original(*args, **kwargs)
        fresh = self._first(args, kwargs)
        return self.original(*args, **kwargs) if fresh is None else fresh(*args, **kwargs)

    async def optimize(self, *args: P.args, **kwargs: P.kwargs) -> Optimized[P, R]:
        """Finds what is faster for calls like this one, which then take it.

        Options are those that the function was decorated with.
        """
        fresh = await optimize(self.original, *args, **self._options, kwargs=kwargs)
        self._keep(fresh)
        return fresh

    def _keep(self, fresh: Optimized[P, R]) -> None:
        """Stores an outcome in the place of an earlier one for the same kind of call."""
        with self._lock:
            # A new list: other threads may be reading the old one, without the lock.
            self._found = [
                *(earlier for earlier in self._found if earlier.kind != fresh.kind),
                fresh,
            ]

    def _first(
        self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ) -> Optimized[P, R] | None:
        """The outcome for a kind of call that is new, or was tried in vain before; `None` where the
        function runs as it is."""
        if is_traced((args, kwargs)) or any(map(is_gone, tree_leaves((args, kwargs)))):
            return None
        try:
            kind = call_kind(self.original, args, kwargs, self._options)
        except AiosearchError as error:
            self._warn(f"runs as it is: {error}")
            return None
        if kind in self._tried:
            return None
        if loop_is_running():
            self._warn(
                "is called in an event loop and so runs as it is; for this kind of call await"
                " its .optimize(...) with these arguments"
            )
            return None
        with self._lock:
            lock = self._locks[kind]
        with lock:  # of this kind alone: others do not wait for minutes
            # Another thread may have optimized this kind while this one waited for the lock.
            if kind not in self._tried:
                self._tried[kind] = self._attempt(args, kwargs)
            return self._tried[kind]

    def _attempt(
        self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ) -> Optimized[P, R] | None:
        """Optimizes the function; whatever goes wrong, it is called as it is."""
        try:
            fresh = optimize_sync(self.original, *args, **self._options, kwargs=kwargs)
        # A decorator must not break a program that ran without it: any error becomes a warning.
        except Exception as error:
            ours = isinstance(error, AiosearchError)
            problem = str(error) if ours else f"{type(error).__name__}: {error}"
            self._warn(f"runs as it is: {problem}", deeper=1)
            return None
        self._keep(fresh)
        return fresh

    def _warn(self, message: str, deeper: int = 0) -> None:
        if message not in self._told:
            self._told.add(message)
            warnings.warn(
                f"{shown(self.original)} {message}", RuntimeWarning, stacklevel=4 + deeper
            )

    def __reduce__(self) -> str:
        """Is copied and pickled as functions are: by its name."""
        return str(getattr(self, "__qualname__", ""))

    def __repr__(self) -> str:
        return f"<optimized on call: {shown(self.original)}>"
