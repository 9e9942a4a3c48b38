"""The board: one file in memory for each search and machine, with a lock for each place."""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiosearch.errors import StrategyError
from aiosearch.memory import lock, reopen, try_lock, unlock, unnamed_file

from .layout import MOST_PLACES, OPEN, REVOKED, TAKER, BoardLayout
from .place import BoardPlace
from .verdicts import Verdicts

PATIENCE = 0.01
"""Seconds that the host waits at most for a lock: its holder may be frozen."""


class SharedBoard:
    """A `Board` in memory that other processes of the same user can open."""

    def __init__(self, fd: int, path: str, places: int = 0) -> None:
        """Owns `fd` from now on, also where this raises `OSError` for want of memory."""
        self.path = path
        self._fd = fd
        try:
            if places:
                os.ftruncate(fd, BoardLayout.size(places))
            self._map = mmap.mmap(fd, 0)
        except (OSError, ValueError):
            os.close(fd)
            raise
        self.layout = BoardLayout(self._map, places or BoardLayout.places_in(self._map))
        if places:
            self.layout.clear()
        self.verdicts = Verdicts(self.layout.verdicts, fd)

    @classmethod
    def create(cls, places: int) -> SharedBoard:
        """Makes an empty board for so many `places`."""
        if sys.platform != "linux":
            raise StrategyError("stealing through shared memory needs Linux; use `queue` here")
        if not 0 < places <= MOST_PLACES:
            raise StrategyError(f"a board has 1 to {MOST_PLACES} places, not {places}")
        try:
            fd, path = unnamed_file("aiosearch-board")
            return cls(fd, path, places)
        except OSError as error:
            why = error.strerror or error
            raise StrategyError(
                f"there is no room for a board of {places} places ({why}); use `queue`, or fewer "
                "workers on this machine"
            ) from error

    @classmethod
    def join(cls, path: str, place: int, owner: int, ring: Callable[[], None]) -> BoardPlace:
        """Opens another process's board, for one life of one worker."""
        board = cls(reopen(path), path)
        return board.exchange(place, owner, ring, board.close)

    def exchange(
        self,
        place: int,
        owner: int,
        ring: Callable[[], None],
        on_close: Callable[[], None] = lambda: None,
    ) -> BoardPlace:
        """Opens a `BoardPlace` for one life of one worker of this very process."""
        return BoardPlace(self, place, owner, ring, on_close)

    def revoke(self, place: int, owner: int) -> dict[int, int] | None:
        """Takes a dead worker's offers back; says who has taken those that are not there
        any more.

        None where that cannot be said yet, because somebody holds the lock and does not let
        go.
        """
        if not self._try_for(place, PATIENCE):
            return None
        try:
            return self._revoke(place, owner)
        finally:
            unlock(self._fd, place, 1)

    def _revoke(self, place: int, owner: int) -> dict[int, int]:
        layout = self.layout
        if layout.owners[place] != owner:
            return {}  # it died before it sat down
        takers = {}
        for slot, word in enumerate(layout.words(place)):
            number, taker = word >> 24, word & TAKER
            if number and taker == OPEN:
                layout.mark(place, slot, number, REVOKED)
            elif number:
                takers[number] = taker
        # All of it under the lock: whoever looks for work here afterwards finds every slot settled
        layout.owners[place] = layout.resting[place] = layout.promised[place] = 0
        layout.weights[place] = 0.0
        return takers

    @contextmanager
    def locked(self, place: int) -> Iterator[None]:
        """Holds a place's lock for its body; waits for it."""
        lock(self._fd, place, 1)
        try:
            yield
        finally:
            unlock(self._fd, place, 1)

    def try_for(self, place: int) -> bool:
        """Takes a place's lock, if nobody has it; the counterpart is `let_go`."""
        return try_lock(self._fd, place, 1)

    def let_go(self, place: int) -> None:
        """Gives the lock of `try_for` back."""
        unlock(self._fd, place, 1)

    def _try_for(self, place: int, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not self.try_for(place):
            if time.monotonic() > end:
                return False
            time.sleep(0)
        return True

    def close(self) -> None:
        """Gives memory and file back. Safe to call twice."""
        if self._map.closed:
            return
        self.layout.close()
        self._map.close()
        os.close(self._fd)
