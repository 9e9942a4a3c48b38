"""The `@optimized` decorator: a function that gets faster while it is called.

The first call of each kind begins a search in the background, and runs the original, as do all
others until there is something faster, which takes over between two calls, and so does what is
faster yet. So no call waits for a search. With `wait=True` the first call of each kind does.

Example: a server calls `score` with batches of 1 to 40 rows. Sizes that round up to the same power
of two are a bucket, here 1, 2, 4, 8, 16, 32 and 64, and of each bucket the first
`KINDS_PER_BUCKET` kinds of calls are searched, those called most first; others run the original.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import ParamSpec, TypeVar, overload

import jax
import jax.numpy as jnp
from anyio import to_thread
from jax.tree_util import tree_leaves

from .._blocking import loop_is_running
from ..capture.jax_types import Function, Parameters, PyTree
from ..capture.names import shown
from ..errors import AiosearchError
from ..measure.worker.timing import wait_for
from .background import SEARCHES, BackgroundSearch
from .call_kinds import call_kind, is_gone, is_traced
from .errors import OptimizeError
from .handback.dispatch import OTHER
from .handback.optimized import FunctionWrapper, Optimized
from .jax_settings import use_settings
from .optimization import Optimization, optimize, optimize_sync
from .options import demand_options
from .trace.traced import is_array

P = ParamSpec("P")
R = TypeVar("R")


KINDS_PER_BUCKET = 4
"""How many kinds of calls are searched whose sizes round up to the same powers of two: of shapes
that never come again there may be any number."""


@overload
def optimized(function: Callable[P, R], /) -> OptimizedOnCall[P, R]: ...
@overload
def optimized(
    *, wait: bool = False, **options: PyTree
) -> Callable[[Callable[P, R]], OptimizedOnCall[P, R]]: ...
def optimized(
    function: Function | None = None, /, *, wait: bool = False, **options: PyTree
) -> PyTree:
    """Decorates a function so that it is optimized when it is called; takes what `optimize` takes.

        @optimized(effort="quick")
        def attention(q, k, v): ...

    A kind of call (`call_kind`) is a tree of arguments with its shapes, element types and static
    arguments. The first call of each kind, with concrete arrays, begins a search in the background,
    in processes of low priority that end with this one, on a machine with two cores or more; calls
    run the original, and from the first verified gain on the best so far. It is searched once, and
    remembered for other processes. `OptimizedOnCall.settle` waits for it. Of kinds that differ in
    sizes alone, and little, `KINDS_PER_BUCKET` are searched. Nothing shows `progress`, unless that
    is asked for.

    With `wait=True` the first call of each kind waits until the answer is there instead, and what
    is to be taken is also called here, as by `optimize`. In an event loop nothing waits: await
    `.optimize(...)` before, until when the original runs.

    A method's object is an argument like others: where it is no tree of arrays it has to be static;
    or leave the method as it is and give `optimize` that of one object. Raises `OptimizeError` for
    an option that cannot be one.
    """
    if not isinstance(wait, bool):
        raise OptimizeError(f"wait has to be True or False, not {wait!r}")
    if function is None:
        return lambda decorated: OptimizedOnCall(decorated, options, wait=wait)
    return OptimizedOnCall(function, options, wait=wait)


class OptimizedOnCall(FunctionWrapper[P, R]):
    """A function, and what was found for the kinds of calls that were made."""

    def __init__(
        self, function: Callable[P, R], options: Parameters, *, wait: bool = False
    ) -> None:
        demand_options(function, options)
        super().__init__(function)  # first: it may have these attributes
        self._options = dict(options)
        self._wait = wait
        self._searches: dict[Hashable, BackgroundSearch] = {}
        self._buckets: Counter[Hashable] = Counter()
        self._notices: list[str] = []
        """What the background has to say, for the next call to warn of."""
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
        for notice in self._take_notices():
            self._warn(notice)
        if is_traced((args, kwargs)) or any(map(is_gone, tree_leaves((args, kwargs)))):
            return None
        try:
            kind = call_kind(self.original, args, kwargs, self._options)
        except AiosearchError as error:
            self._warn(f"runs as it is: {error}")
            return None
        if kind in self._tried:
            return None
        if not self._wait:
            self._search_later(kind, args, kwargs)
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

    def settle(self, seconds: float | None = None) -> bool:
        """Waits until no search in the background is left that calls have begun, or so many
        seconds; gives whether none is."""
        end = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            searches = [*self._searches.values()]
        return all(
            search.ended.wait(None if end is None else max(0.0, end - time.monotonic()))
            for search in searches
        )

    def _search_later(
        self, kind: Hashable, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ) -> None:
        """Begins a search for a kind of call, if it has none yet; nobody waits for it."""
        with self._lock:
            search = self._searches.get(kind)
            if search is not None:
                search.calls += 1
                return
            bucket = bucket_of(kind)
            if self._buckets[bucket] >= KINDS_PER_BUCKET or not SEARCHES.possible:
                self._tried[kind] = None
                return
            self._buckets[bucket] += 1
            # Before it is submitted, so that another thread does not begin it too.
            search = self._searches[kind] = BackgroundSearch(_nothing)
        try:
            optimization = self._prepared(args, kwargs)
        except Exception as error:
            search.ended.set()
            self._tried[kind] = None
            self._warn(f"runs as it is: {_problem(error)}", deeper=1)
            return
        search.run = partial(self._searched, kind, optimization)
        SEARCHES.submit(search)

    def _prepared(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> Optimization[P, R]:
        """The search for a call, traced: here, as what is traced may not bear another thread."""
        options = {"progress": False, **self._options}
        constants = options.get("constant_argnums", ())
        places = [constants] if isinstance(constants, int) else list(constants)
        constant_places = {place % len(args) for place in places if -len(args) <= place < len(args)}
        # Types in the place of arrays, which the caller may give away to another call meanwhile.
        types = [
            value if at in constant_places else jax.tree.map(_type_of, value)
            for at, value in enumerate(args)
        ]
        named = {name: jax.tree.map(_type_of, value) for name, value in kwargs.items()}
        optimization: Optimization[P, R] = Optimization(
            self.original, *types, **options, kwargs=named
        )
        optimization.trace()
        optimization.on_improvement(self._take_over)
        return optimization

    async def _searched(self, kind: Hashable, optimization: Optimization[P, R]) -> None:
        """Finds what is faster for a kind of call; whatever goes wrong, it is called as it is."""
        try:
            fresh = await optimization.run()
            if fresh is not optimization.best:  # which has taken over already
                await to_thread.run_sync(self._take_over, fresh)
        except Exception as error:
            self._notices.append(f"runs as it is: {_problem(error)}")
            self._tried[kind] = None
            return
        self._tried[kind] = fresh

    def _take_over(self, fresh: Optimized[P, R]) -> None:
        """Has calls run a drop-in from now on, which is compiled before. Blocks."""
        _warm_up(fresh)
        self._keep(fresh)

    def _take_notices(self) -> list[str]:
        if not self._notices:
            return []
        with self._lock:
            notices, self._notices = self._notices, []
        return notices

    def _attempt(
        self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
    ) -> Optimized[P, R] | None:
        """Optimizes the function; whatever goes wrong, it is called as it is."""
        try:
            fresh = optimize_sync(self.original, *args, **self._options, kwargs=kwargs)
        # A decorator must not break a program that ran without it: any error becomes a warning.
        except Exception as error:
            self._warn(f"runs as it is: {_problem(error)}", deeper=1)
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


def bucket_of(kind: Hashable) -> Hashable:
    """Equal for kinds of calls whose sizes round up to the same powers of two."""
    assert isinstance(kind, tuple), "as `call_kind` gives it"
    *form, leaves = kind
    return (*form, tuple(map(_rounded_up, leaves)))


def _rounded_up(leaf: PyTree) -> Hashable:
    """A type with each of its sizes rounded up to a power of two."""
    if not hasattr(leaf, "shape"):
        return repr(leaf)
    sizes = tuple(1 << max(size - 1, 0).bit_length() for size in leaf.shape)
    return str(leaf.dtype), bool(getattr(leaf, "weak_type", False)), sizes


def _type_of(leaf: PyTree) -> PyTree:
    """What stands for an array of jax; all else stands for itself."""
    if not is_array(leaf):
        return leaf
    aval = jax.typeof(leaf)
    sharding = leaf.sharding if len(leaf.sharding.device_set) > 1 else None
    array_type: PyTree = jax.ShapeDtypeStruct
    return array_type(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type)


def _warm_up(fresh: Optimized[..., PyTree]) -> None:
    """Calls a drop-in with zeros, so that the call of which it takes over does not compile it.

    One whose calls somebody would hear, or that takes what has no zeros, compiles when it is
    called.
    """
    cut = fresh.spliced.cut
    if any(piece.jaxpr.effects for piece in cut.pieces):
        return
    with use_settings(cut.settings):
        leaves = [
            cut.held[at] if at in cut.held else _zeros(aval) for at, aval in enumerate(cut.avals)
        ]
        if any(leaf is None for leaf in leaves):
            return
        positional, named = cut.call.arguments(leaves)
        wait_for(fresh.attempt(tuple(positional), named))


def _zeros(aval: PyTree) -> PyTree:
    """Zeros of a type; `None` where it has none, such as random keys."""
    if jnp.issubdtype(aval.dtype, jax.dtypes.extended):
        return None
    if aval.weak_type:
        return aval.dtype.type(0).item() if not aval.shape else None
    return jnp.zeros(aval.shape, aval.dtype)


async def _nothing() -> None:
    """What a search does that is not prepared yet."""


def _problem(error: Exception) -> str:
    return str(error) if isinstance(error, AiosearchError) else f"{type(error).__name__}: {error}"
