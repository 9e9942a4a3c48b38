"""What a user opens: a `Search` as an async context manager and async iterator."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, cast

import anyio

from ._blocking import waited_for
from .arguments import is_path, is_positive, is_whole, require
from .engine.run.run import OnError, OnUnknown, SearchRun, SearchSettings
from .engine.wire import reference
from .errors import AiosearchError
from .events import Hook
from .limits import Limits
from .orders import Order, find_order
from .pool import Pool
from .problem import AnyProblem, NodeT, Problem
from .result import Result, SearchStatus, SolutionT
from .statistics import Statistics
from .strategies import Strategy, find_strategy
from .strategies.registry import strategy_name

if TYPE_CHECKING:
    from .remote.links import Listener

with contextlib.suppress(ImportError):
    # anyio loads its backend at the first use, and that would hold the user's loop up for 40 ms
    importlib.import_module("anyio._backends._asyncio")

_WANTED = {
    "pool": ("a Pool", lambda value: value is None or isinstance(value, Pool)),
    "journal": ("a path", lambda value: value is None or is_path(value)),
    "seed": ("a whole number", is_whole),
    "progress_seconds": ("a number of seconds above 0", is_positive),
}


class Search(Generic[NodeT, SolutionT]):
    """One search. Leaving the context ends it, and every process that it started, at once.

    Iterate over it for improving solutions, or `wait()` for the end; `result` is valid always.

        async with Search(problem) as search:
            result = await search.wait()
    """

    def __init__(
        self,
        problem: Problem[NodeT, SolutionT],
        *,
        strategy: str | Strategy | type[Strategy] = "queue",
        options: Mapping[str, Any] | None = None,
        order: str | Order | None = None,
        workers: int | None = None,
        pool: Pool | None = None,
        limits: Limits | None = None,
        on: Hook | Iterable[Hook] = (),
        journal: str | Path | None = None,
        resume: bool = False,
        seed: int = 0,
        on_unknown: OnUnknown = "defer",
        on_error: OnError = "raise",
        cache: Path | str | Literal["default"] | None = "default",
        progress_seconds: float = 0.5,
        listener: Listener | None = None,
        patience: float = 5.0,
    ) -> None:
        """Prepares a search; nothing starts before `async with`.

        - `strategy`: who explores what, by name or as a class (with `options`), or as an object.
        - `order`: depth-first, breadth-first, best-first or branch-and-bound; by default
          branch-and-bound where the problem has `bound` and `cost`, else depth-first.
        - `workers`: processes; 0 for this one; by default one per core. Or give a `pool`.
        - `journal`: a file that makes the search resumable; `resume=True` takes one up.
        - `on_unknown`: explore a node whose verdict is unknown last (`defer`), like any other
          (`keep`), or not at all (`drop`).
        - `on_error`: `raise` when the problem raises, or `skip` that subtree and count it.
        - `on`: hooks that get every event; their exceptions are logged and counted, no more.
        - `cache`: where verdicts are kept on disk; None for nowhere. A given pool has its own.
        - `listener`: of a transport, over which other machines join; one that is silent for
          `patience` seconds is done without. `workers=0` is these alone, and the default where this
          machine is one of them, as on a Ray cluster.
        """
        if pool is not None and (workers is not None or listener is not None):
            raise AiosearchError("give workers and a listener, or a pool, not both")
        require(_WANTED, pool=pool, journal=journal, seed=seed, progress_seconds=progress_seconds)
        for name, value, allowed in (
            ("on_unknown", on_unknown, ("defer", "keep", "drop")),
            ("on_error", on_error, ("raise", "skip")),
        ):
            if value not in allowed:
                raise AiosearchError(f"{name} must be one of {allowed}, not {value!r}")
        if resume and journal is None:
            raise AiosearchError("resume=True needs the journal to resume from")
        check_problem(problem)
        if limits is not None and not isinstance(limits, Limits):
            raise AiosearchError(f"limits must be Limits(...), not {limits!r}")
        # One hook or several: a hook is callable, and no iterable of hooks is
        hooks = (on,) if callable(on) else tuple(on) if isinstance(on, Iterable) else (on,)
        if not all(map(callable, hooks)):
            raise AiosearchError(f"on must be a hook or several, not {on!r}")
        # Each worker would start workers, without end
        if reference.running_main_again:
            raise AiosearchError(
                "the script starts a search while a worker imports it for its classes; put that "
                'part under `if __name__ == "__main__":`'
            )
        self._own_pool = pool is None
        self._pool = (
            Pool(workers, cache=cache, listener=listener, patience=patience)
            if pool is None
            else pool
        )
        self._run: SearchRun = SearchRun(
            problem,
            self._pool,
            find_order(order, problem),
            find_strategy(strategy, options),
            SearchSettings(
                strategy=strategy_name(strategy),
                limits=limits or Limits(),
                journal=Path(journal) if journal is not None else None,
                resume=resume,
                seed=seed,
                on_unknown=on_unknown,
                on_error=on_error,
                progress_seconds=progress_seconds,
            ),
            hooks,
        )
        self._entered = False

    async def __aenter__(self) -> Search[NodeT, SolutionT]:
        if self._entered:
            raise AiosearchError("a search can be opened once; make a new one")
        self._entered = True
        try:
            if self._own_pool:
                await self._pool.__aenter__()
            await self._run.start()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._run.done:
            reason = "cancelled" if error is not None else "left before it was complete"
            self._run.stop(SearchStatus.CANCELLED, reason)
        await self._close()

    async def _close(self) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await self._run.close()
            finally:
                if self._own_pool:
                    await self._pool.close()

    def __aiter__(self) -> AsyncIterator[SolutionT]:
        return self._improving()

    async def _improving(self) -> AsyncIterator[SolutionT]:
        self._require_open()
        at = 0
        improving = self._run.found.improving
        while True:
            # The list only grows, so an index is all that an iterator needs
            while at < len(improving):
                at += 1
                yield cast("SolutionT", self._run.decode_solution(improving[at - 1][0]))
            if self._run.done:
                self._run.raise_failure()
                return
            await self._run.changed()

    async def wait(self) -> Result[SolutionT]:
        """Waits until the search has ended; raises what made it fail."""
        self._require_open()
        while not self._run.done:
            await self._run.changed()
        self._run.raise_failure()
        return self.result

    def stop(self, reason: str = "stopped") -> None:
        """Ends the search; iteration and `wait` return as soon as the workers have reported."""
        self._require_open()
        self._run.stop(SearchStatus.CANCELLED, reason)

    def _require_open(self) -> None:
        if not self._entered:
            raise AiosearchError("the search is not open; use `async with Search(...) as search`")

    @property
    def result(self) -> Result[SolutionT]:
        """What is found so far, and how the search stands, as a `Result`. Valid at any moment."""
        return self._run.result()

    def __repr__(self) -> str:
        """What is searched, and how far it is."""
        return f"<search of {self._run.name}: {self.result!r}>"

    def _repr_html_(self) -> str:
        return self.result._repr_html_()

    def statistics(self) -> Statistics:
        """The figures so far, as in `Result.statistics`."""
        return self._run.statistics()


def solve(problem: Problem[NodeT, SolutionT], **options: Any) -> Result[SolutionT]:
    """Searches and returns the result; takes what `Search` takes.

    Works inside a running event loop too (a notebook), which then waits for it.
    """

    async def search() -> Result[SolutionT]:
        async with Search(problem, **options) as opened:
            return await opened.wait()

    return waited_for(search, "aiosearch.solve")


_SYNCHRONOUS = ("root", "solutions", "cost", "bound", "key", "obligation")
"""Methods of a problem that are called, and not awaited."""


def check_problem(problem: AnyProblem) -> None:
    """Raises `AiosearchError` with what a problem lacks."""
    if isinstance(problem, type):
        raise AiosearchError(f"give an instance: {problem.__qualname__}(...), not the class")
    missing = [
        name
        for name in ("root", "expand", "solutions")
        if not callable(getattr(problem, name, None))
    ]
    if missing:
        raise AiosearchError(
            f"{type(problem).__qualname__} is no problem: it lacks "
            + ", ".join(f"{name}()" for name in missing)
        )
    for name in _SYNCHRONOUS:
        method = getattr(problem, name, None)
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            raise AiosearchError(
                f"{type(problem).__qualname__}.{name} is declared with async def; of a problem's"
                " methods only expand may be. Let expand wait for what it needs, and put that into"
                " the nodes"
            )
    lanes = getattr(problem, "lanes", 1)
    if not (isinstance(lanes, int) and lanes > 0):
        raise AiosearchError(
            f"{type(problem).__qualname__}.lanes must be a number of tasks, not {lanes!r}"
        )
