"""A worker's place on the board, its `Exchange`: what it offers there, and how it takes what others
offer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aiosearch.strategies import Taken

from .layout import OPEN, ROOM, SLOTS, TAKER

if TYPE_CHECKING:
    from .board import SharedBoard

SOME = 1e-300
"""What an offer weighs at least: whoever looks for one has to see something above 0."""
MOST_PIECES = 4
"""Offers made at a time at most, so that several others find something."""


class BoardPlace:
    """One life of one worker, at its place.

    An offer is settled by one store of eight bytes, under the place's lock, and after whoever takes
    it has a copy; so whoever dies at whatever instruction leaves it either open or settled.
    """

    def __init__(
        self,
        board: SharedBoard,
        place: int,
        owner: int,
        ring: Callable[[], None],
        on_close: Callable[[], None],
    ) -> None:
        self._board = board
        self._layout = board.layout
        self._place = place
        self._owner = owner
        self._ring = ring
        self._on_close: Callable[[], None] | None = on_close
        self._slots: dict[int, int] = {}
        """By number: the slots of own offers that were not taken at the last look."""
        self._wanted = True
        """Whether one of the last offers was taken."""
        # The life before this one may have left slots behind: they are settled, or the host would
        # not have given the place away
        with board.locked(place):
            for slot in range(SLOTS):
                self._layout.mark(place, slot, 0, 0)
            self._layout.weights[place] = 0.0
            self._layout.resting[place] = True  # until there is work
            self._layout.promised[place] = False
            self._layout.owners[place] = owner

    @property
    def quiet(self) -> bool:
        layout = self._layout
        present = sum(map(bool, layout.owners))
        return layout.resting.tobytes().count(1) >= present - (not layout.resting[self._place])

    def lacking(self, calm: bool) -> int:
        """Says how many offers to make: some where nothing is left of the last ones.

        At once if somebody waits for some; otherwise when it costs next to nothing
        (`calm`), and somebody wanted the last ones.
        """
        layout, place = self._layout, self._place
        if any(layout.word(place, slot) & TAKER == OPEN for slot in self._slots.values()):
            return 0
        if not ((calm and self._wanted) or self._in_want()):
            return 0
        neighbours = sum(map(bool, layout.owners.tolist())) - 1
        # The frontier is halved so often, so a power of two: 0, 1, 2 or 4
        return min(neighbours, MOST_PIECES) & ~1 or min(neighbours, 1)

    def _in_want(self) -> bool:
        """Whether more workers wait than there are who offer something, or are about to
        (`promise`)."""
        layout = self._layout
        waiting = layout.resting.tobytes().count(1)
        if not waiting:
            return False
        offering = sum(weight > 0.0 for weight in layout.weights)
        return waiting > offering + layout.promised.tobytes().count(1)

    @property
    def room(self) -> int:
        return SLOTS - len(self._slots)

    def fits(self, blob: bytes) -> bool:
        return len(blob) <= ROOM

    def promise(self, promised: bool) -> None:
        self._layout.promised[self._place] = promised

    def offer(self, number: int, blob: bytes, weight: float) -> None:
        layout, place = self._layout, self._place
        occupied = set(self._slots.values())
        slot = next(slot for slot in range(SLOTS) if slot not in occupied)
        with self._board.locked(place):
            if layout.owners[place] != self._owner:
                return  # it is taken for dead, and will be ended
            layout.write(place, slot, blob, weight)
            layout.mark(place, slot, number, OPEN)
            layout.weights[place] += weight + SOME
        self._slots[number] = slot
        self._ring()

    def taken(self) -> list[tuple[int, int]]:
        settled = []
        for number, slot in self._slots.items():
            if taker := self._layout.word(self._place, slot) & TAKER:
                settled.append((number, taker))
        for number, _ in settled:
            del self._slots[number]
        self._wanted |= bool(settled)
        return settled

    def regain(self) -> list[int]:
        layout, place = self._layout, self._place
        regained = []
        with self._board.locked(place):
            for number, slot in self._slots.items():
                if layout.word(place, slot) & TAKER == OPEN:
                    layout.mark(place, slot, number, self._owner)
                    regained.append(number)
            layout.weights[place] = 0.0
        for number in regained:
            del self._slots[number]
        self._wanted &= not regained
        return regained

    def take(self) -> list[Taken]:
        """Takes half of what the place offers that offers most, the oldest first."""
        layout = self._layout
        weights: list[float] = list(layout.weights)
        weights[self._place] = 0.0
        while (most := max(weights)) > 0.0:
            victim = weights.index(most)
            # Never waiting: whoever holds the lock is taking from there, and the next place is as
            # good
            if self._board.try_for(victim):
                try:
                    if offers := self._take_from(victim):
                        return offers
                finally:
                    self._board.let_go(victim)
            weights[victim] = 0.0
        return []

    def _take_from(self, victim: int) -> list[Taken]:
        """Copies and marks offers of a place whose lock is held."""
        layout = self._layout
        words = enumerate(layout.words(victim))
        offers = sorted((word >> 24, slot) for slot, word in words if word and not word & TAKER)
        count = (len(offers) + 1) // 2
        owner = layout.owners[victim]
        copies = []
        for number, slot in offers[:count]:
            copies.append(Taken(owner, number, layout.read(victim, slot)))
            # After the copy: who dies before this line has taken nothing, and after it the word
            # says who has it
            layout.mark(victim, slot, number, self._owner)
        left = [layout.weight(victim, slot) for _, slot in offers[count:]]
        layout.weights[victim] = sum(left) + len(left) * SOME
        if any(layout.weights):
            self._ring()  # for the next one who rests: who was woken has heard all rings so far
        return copies

    def rest(self, resting: bool) -> None:
        self._layout.resting[self._place] = resting

    def improve(self, cost: float) -> None:
        if cost < self._layout.costs[self._place]:
            self._layout.costs[self._place] = cost

    @property
    def best(self) -> float:
        return min(self._layout.costs)

    def judged(self, digest: bytes, status: str) -> None:
        self._board.verdicts.add(digest, status)

    def verdict(self, digest: bytes) -> str:
        return self._board.verdicts.find(digest)

    def close(self) -> None:
        if self._on_close is not None:
            self._on_close()
            self._on_close = None
