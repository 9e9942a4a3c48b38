"""`Arm`: a strategy and an order on a number of workers, under three switches, to be compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Literal, TypeAlias

from msgspec import Struct

Verdicts: TypeAlias = Literal["shared", "private"]
Solver: TypeAlias = Literal["pooled", "locked"]
Split: TypeAlias = Literal["adaptive", "height1"]

BASE = "queue"
"""The strategy whose run on one worker all other arms are compared with."""


class Arm(Struct, frozen=True, order=True):
    """One way of distributing a search: `Arm("queue", "depth-first", 4)`."""

    strategy: str
    order: str
    workers: int
    verdicts: Verdicts = "shared"
    """Whether a verdict is known to all, or only to the worker that asked; see `Pool`'s
    `verdicts`."""
    solver: Solver = "pooled"
    """Whether there is a z3 process for each worker (`pooled`), or one for all (`locked`)."""
    split: Split = "adaptive"
    """Whether the strategy splits the tree as it likes, or `HeightOne` deals it out."""

    @property
    def base(self) -> Arm:
        """The arm that this arm is compared with: one worker of `BASE`."""
        return Arm(BASE, self.order, 1)

    @property
    def line(self) -> Arm:
        """The arm with 0 workers: its numbers of workers are points of one line in a plot."""
        return Arm(self.strategy, self.order, 0, self.verdicts, self.solver, self.split)

    @property
    def switched(self) -> str:
        """The switches that are not as usual, such as `private locked`."""
        usual = ("shared", "pooled", "adaptive")
        now = (self.verdicts, self.solver, self.split)
        return " ".join(
            value for value, usual_value in zip(now, usual, strict=True) if value != usual_value
        )

    @property
    def name(self) -> str:
        """The strategy and the switches, without order and workers."""
        return f"{self.strategy} {self.switched}".rstrip()

    def __str__(self) -> str:
        how = " ".join(part for part in (self.strategy, self.order, self.switched) if part)
        if not self.workers:
            return how
        return f"{how}, {self.workers} worker" + "s" * (self.workers > 1)


def cross(
    strategies: Iterable[str],
    orders: Iterable[str],
    workers: Iterable[int],
    verdicts: Iterable[Verdicts] = ("shared",),
    solver: Iterable[Solver] = ("pooled",),
    split: Iterable[Split] = ("adaptive",),
) -> list[Arm]:
    """Every combination once, with the `base` that it is compared with."""
    arms = [
        Arm(*combination)
        for combination in product(strategies, orders, workers, verdicts, solver, split)
    ]
    return with_bases(arms)


def with_bases(arms: Sequence[Arm]) -> list[Arm]:
    """Puts each arm's `base` first, and leaves out what comes twice."""
    # Bases first, so that a contest that is stopped early can still say speed-ups
    return list(dict.fromkeys([*(arm.base for arm in arms), *arms]))
