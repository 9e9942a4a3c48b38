"""What an explorer counts. Sums of `Counts` make the `Statistics` of a search."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

Count: TypeAlias = Annotated[int, Meta(ge=0)]


class Counts(Struct, array_like=True, gc=False):
    """Counters of one worker since its last report; mutable, added up by the host."""

    nodes: Count = 0
    """Nodes explored. With a `key`, each machine's distinct ones and the reopened."""
    leaves: Count = 0
    """Explored nodes without children."""
    depth: Count = 0
    """The deepest node explored; `add` takes the maximum."""
    pruned: Count = 0
    """Subtrees left out because their `bound` was no better than the incumbent."""
    duplicates: Count = 0
    """Nodes left out because an equal `key` was explored."""
    reopened: Count = 0
    """Nodes explored again because they were reached with a better `bound`."""
    unclaimed: Count = 0
    """Nodes explored without a claim because the table of keys was full."""
    proved: Count = 0
    refuted: Count = 0
    unknown: Count = 0
    skipped: Count = 0
    """Subtrees given up after an error, under `on_error="skip"`."""
    published: Count = 0
    """Subtrees given away on a `Publish` or over a board."""
    busy_ns: Count = 0
    """Nanoseconds in `Explorer.run`."""
    waiting_ns: Count = 0
    """Nanoseconds with nothing to do but wait for verdicts."""
    resting_ns: Count = 0
    """Nanoseconds of waiting for what other workers might offer."""

    def add(self, counts: Counts) -> None:
        # Written out, because this is part of every round trip
        self.nodes += counts.nodes
        self.leaves += counts.leaves
        self.depth = max(self.depth, counts.depth)
        self.pruned += counts.pruned
        self.duplicates += counts.duplicates
        self.reopened += counts.reopened
        self.unclaimed += counts.unclaimed
        self.proved += counts.proved
        self.refuted += counts.refuted
        self.unknown += counts.unknown
        self.skipped += counts.skipped
        self.published += counts.published
        self.busy_ns += counts.busy_ns
        self.waiting_ns += counts.waiting_ns
        self.resting_ns += counts.resting_ns
