"""Writing a search to its journal, and taking one up again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from msgspec import Struct

from ...orders import Order
from ...problem import AnyProblem
from ..books.coordinator import Transaction
from ..explore.bundles import ROOT, Bundle
from ..explore.counts import Counts
from ..wire.reference import parameters_of, return_type
from .journal import Journal
from .records import JournalHeader, JournalRecord, OpenSubtree

SLICE_SECONDS = 0.001
KEYS_BYTES = 2048
"""Bytes of keys that are handed on at once: less than half a millisecond of `preload`."""


class JournalContents(Struct, frozen=True):
    """What a journal holds, in the engine's terms: bundles and counts."""

    open: dict[int, Bundle]
    next_id: int
    counts: Counts
    solutions: list[bytes]
    keys: list[bytes]
    seconds: float


class JournalKeeper:
    """Writes transactions down: one that is in the `Coordinator`'s books is in the journal's
    queue."""

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._path = path
        self._warn = warn
        self._journal: Journal | None = None
        self._depth = 0
        self._seconds = 0.0
        self._slice_end = 0.0

    def header(self, problem: AnyProblem, order: Order, strategy: str, seed: int) -> JournalHeader:
        # Late, or importing the package would import itself
        from ... import __version__

        cls = type(problem)
        return JournalHeader(
            aiosearch=__version__,
            problem=f"{cls.__module__}:{cls.__qualname__}",
            parameters=parameters_of(problem),
            parameters_text=repr(problem),
            order=type(order).__name__,
            strategy=strategy,
            seed=seed,
            node_type=str(return_type(problem, "root")),
        )

    async def create(self, header: JournalHeader) -> None:
        first = JournalRecord(opened=(_open(1, ROOT),))
        self._journal = await Journal.create(self._path, header, self._warn, first)

    async def resume(self, header: JournalHeader) -> JournalContents:
        self._journal, state = await Journal.resume(self._path, header, self._warn)
        self._slice_end = time.perf_counter() + SLICE_SECONDS
        bundles = {}
        for id, subtree in state.open.items():
            bundles[id] = Bundle(
                subtree.blob,
                subtree.size,
                subtree.depth,
                subtree.priority,
                subtree.rank,
                subtree.weight,
            )
            await self.breathe()
        # A journal of another release of this series may count what this one does not know
        names = set(Counts.__struct_fields__)
        counts = Counts(**{name: n for name, n in state.counts.items() if name in names})
        self._depth = counts.depth
        self._seconds = state.seconds
        # Copies: the journal goes on adding to its own
        return JournalContents(
            bundles,
            state.next_id,
            counts,
            list(state.solutions),
            list(state.keys),
            state.seconds,
        )

    async def keys(self, past: JournalContents) -> AsyncIterator[bytes]:
        """The keys of what was explored, a few at a time."""
        for keys in past.keys:
            for start in range(0, len(keys), KEYS_BYTES):
                await self.breathe()
                yield keys[start : start + KEYS_BYTES]

    async def breathe(self) -> None:
        """Lets the loop do something else when a millisecond has passed."""
        if time.perf_counter() > self._slice_end:
            await asyncio.sleep(0)
            self._slice_end = time.perf_counter() + SLICE_SECONDS

    def write(self, transaction: Transaction, seconds: float) -> None:
        assert self._journal is not None
        counts = {
            name: value
            for name in Counts.__struct_fields__
            # Zeros are left out: most counts of most reports are
            if (value := getattr(transaction.counts, name))
        }
        # A journal adds counts up, and depth is a maximum: write by how much it rose
        rise = max(counts.pop("depth", 0) - self._depth, 0)
        if rise:
            self._depth += rise
            counts["depth"] = rise
        self._journal.write(
            JournalRecord(
                closed=transaction.closed,
                opened=tuple(_open(id, bundle) for id, bundle in transaction.opened),
                counts=counts,
                solutions=transaction.solutions,
                keys=transaction.keys,
                # A journal adds up, so each record carries what has passed since the one before
                seconds=max(seconds - self._seconds, 0.0),
            )
        )
        self._seconds = max(seconds, self._seconds)

    async def close(self) -> None:
        if self._journal is not None:
            await self._journal.close()


def _open(id: int, bundle: Bundle) -> OpenSubtree:
    return OpenSubtree(
        id, bundle.rank, bundle.priority, bundle.size, bundle.blob, bundle.depth, bundle.weight
    )
