"""Static interleaving: split once, deal subtree i to seat i mod n, and say nothing until the end.

This is how Mirage's search was parallelised, and the baseline that every other strategy has to
beat. It is deterministic: which seat explores which subtree follows from the tree alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aiosearch.strategies import (
    API,
    Assign,
    Command,
    Event,
    Idle,
    Joined,
    Lost,
    Opened,
    Plan,
    Task,
)

__all__ = ["Interleaved"]


class Interleaved:
    """Splits the tree at `depth`, and deals the subtrees there out once and for all.

    Seats that come after that get nothing.
    """

    api = API

    def __init__(self, depth: int = 1) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth}")
        self._depth = depth

    def start(self, plan: Plan) -> None:
        self._seats = plan.seats
        self._idle: set[int] = set()
        self._waiting: list[list[Task]] = [[] for _ in range(plan.seats)]
        self._unsplit: list[Task] = []
        self._splitting = False
        self._dealt = 0

    def handle(self, event: Event) -> Iterable[Command]:
        match event:
            case Opened(tasks=tasks, seat=seat):
                for task in tasks:
                    self._sort_in(task, seat)
            case Joined(seat=seat):
                self._admit(seat)
            case Idle(seat=seat):
                self._idle.add(seat)
            case Lost(seat=seat):
                self._idle.discard(seat)
        # Seat 0 has cut the tree to its depth and given every subtree back
        if self._splitting and 0 in self._idle:
            self._splitting = False
        yield from self._deal()

    def _admit(self, seat: int) -> None:
        """Makes room for a seat that the plan did not count."""
        while len(self._waiting) <= seat:
            self._waiting.append([])
        # Who comes before the first deal takes part; afterwards the modulus has to stay
        if not self._dealt:
            self._seats = len(self._waiting)

    def _sort_in(self, task: Task, seat: int | None) -> None:
        """Keeps with a seat what it was dealt, and deals out what is new."""
        dealt_before = seat is not None and not (seat == 0 and self._splitting)
        if task.depth < self._depth and not dealt_before:
            self._unsplit.append(task)
        elif seat is not None and dealt_before:
            # What a seat gives back (its worker died, or a rank ended) stays its own
            self._waiting[seat].append(task)
        else:
            self._waiting[self._dealt % self._seats].append(task)
            self._dealt += 1

    def _deal(self) -> Iterator[Command]:
        if self._splitting:
            return
        if self._unsplit:
            if 0 in self._idle:
                self._idle.discard(0)
                self._splitting = True
                tasks = tuple(task.id for task in self._unsplit)
                self._unsplit.clear()
                yield Assign(0, tasks, depth=self._depth)
            return
        for seat in sorted(self._idle):
            mine = self._waiting[seat]
            if mine:
                rank = min(task.rank for task in mine)
                self._waiting[seat] = [task for task in mine if task.rank != rank]
                self._idle.discard(seat)
                yield Assign(seat, tuple(task.id for task in mine if task.rank == rank))
