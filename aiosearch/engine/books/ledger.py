"""The ledger: which subtrees are open, which of them nobody holds, and which killed workers."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ...strategies.contract import Task
from ..explore.bundles import Bundle

SUSPECT_DEATHS = 2
"""A task with which this many workers died is opened one level at a time from then on."""
MOST_DEATHS = 5
"""A task of which this many workers die, one after the other, is taken to be what kills them."""
MOST_DEATHS_TOGETHER = 25
"""Stands for `MOST_DEATHS` where the worker held other tasks too, and any of them may be to blame.
"""


class Ledger:
    """Every open `Bundle` under the number that the strategy knows it by."""

    def __init__(self) -> None:
        self._bundles: dict[int, Bundle] = {}
        self._free: set[int] = set()
        self._deaths: dict[int, int] = {}
        self._next_id = 1
        self.subtrees = 0
        """Open subtrees, whoever holds them: the sum of `Bundle.size`."""
        self.weight = 0.0
        """The share of the tree that is open, from 0 to 1, as far as `Bundle.weight` can tell."""

    def __len__(self) -> int:
        return len(self._bundles)

    def __getitem__(self, id: int) -> Bundle:
        return self._bundles[id]

    def lowest_priority(self) -> float | None:
        """The lowest score of an open subtree; None where the root is open, which has none yet."""
        bundles = self._bundles.values()
        if any(not bundle.blob for bundle in bundles):
            return None
        return min((bundle.priority for bundle in bundles), default=math.inf)

    @property
    def free(self) -> int:
        """How many tasks nobody holds."""
        return len(self._free)

    def is_free(self, id: int) -> bool:
        return id in self._free

    def restore(self, bundles: dict[int, Bundle], next_id: int) -> None:
        """Takes over what a journal held, or the `ROOT`."""
        self._next_id = next_id
        for id, bundle in bundles.items():
            self._enter(id, bundle)
        self._free.update(bundles)

    def open(self, bundles: Iterable[Bundle], free: bool) -> dict[int, Bundle]:
        """Enters new bundles, free or in a worker's hands, and gives them their numbers."""
        entered = {}
        for bundle in bundles:
            entered[self._next_id] = bundle
            self._enter(self._next_id, bundle)
            self._next_id += 1
        if free:
            self._free.update(entered)
        return entered

    def close(self, id: int) -> None:
        bundle = self._bundles.pop(id)
        self._deaths.pop(id, None)
        self.subtrees -= bundle.size
        self.weight -= bundle.weight

    def take(self, ids: Iterable[int]) -> dict[int, Bundle]:
        """Puts free tasks into somebody's hands."""
        assigned = {id: self._bundles[id] for id in ids}
        self._free.difference_update(assigned)
        return assigned

    def put_back(self, id: int) -> None:
        """Makes a task free again whose holder died."""
        self._free.add(id)

    def tasks(self, ids: Iterable[int]) -> tuple[Task, ...]:
        """What a strategy may know of these tasks."""
        return tuple(self._task(id) for id in ids)

    def count_death(self, id: int) -> int:
        """Notes that a worker died with a task; says how many have by now."""
        self._deaths[id] = self._deaths.get(id, 0) + 1
        return self._deaths[id]

    def is_suspect(self, id: int) -> bool:
        return self._deaths.get(id, 0) >= SUSPECT_DEATHS

    def _enter(self, id: int, bundle: Bundle) -> None:
        self._bundles[id] = bundle
        self.subtrees += bundle.size
        self.weight += bundle.weight

    def _task(self, id: int) -> Task:
        bundle = self._bundles[id]
        return Task(id, bundle.size, bundle.depth, bundle.priority, bundle.rank, bundle.weight)
