"""What an explorer counts. Sums of these make the statistics of a search."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

Count: TypeAlias = Annotated[int, Meta(ge=0)]


class Counts(Struct, array_like=True, gc=False):
    """Counters of one worker since its last report; mutable, added up by the host."""

    nodes: Count = 0
    """Nodes explored. With a `key`, these are each machine's distinct ones and the reopened."""
    leaves: Count = 0
    """Explored nodes without children."""
    depth: Count = 0
    """The deepest node explored; combines by maximum."""
    pruned: Count = 0
    """Subtrees left out because their bound was no better than the best solution."""
    duplicates: Count = 0
    """Nodes left out because an equal key was explored."""
    reopened: Count = 0
    """Nodes explored again because they were reached with a better bound."""
    unclaimed: Count = 0
    """Nodes explored without a claim because the table of keys was full."""
    proved: Count = 0
    refuted: Count = 0
    unknown: Count = 0
    skipped: Count = 0
    """Subtrees given up after an error, under `on_error="skip"`."""
    published: Count = 0
    """Subtrees given away on request."""
    busy_ns: Count = 0
    """Time spent exploring."""
    waiting_ns: Count = 0
    """Time spent with nothing to do but wait for verdicts."""
    resting_ns: Count = 0
    """Time spent in wait for what other workers might offer."""

    def add(self, other: Counts) -> None:
        # Written out, because this is part of every round trip
        self.nodes += other.nodes
        self.leaves += other.leaves
        self.depth = max(self.depth, other.depth)
        self.pruned += other.pruned
        self.duplicates += other.duplicates
        self.reopened += other.reopened
        self.unclaimed += other.unclaimed
        self.proved += other.proved
        self.refuted += other.refuted
        self.unknown += other.unknown
        self.skipped += other.skipped
        self.published += other.published
        self.busy_ns += other.busy_ns
        self.waiting_ns += other.waiting_ns
        self.resting_ns += other.resting_ns
