"""The host of a simulated search as one server: it takes a message at a time, and each costs it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .worker import SimulatedClock


class HostDesk:
    """Handles what arrives in its order; what is sent meanwhile leaves when it has been written."""

    def __init__(
        self, clock: SimulatedClock, cost: int, at: Callable[[int, Callable[[], None]], None]
    ) -> None:
        self.spent = 0
        """Nanoseconds for which the host worked."""
        self._clock = clock
        self._cost = cost
        self._at = at
        self._waiting: deque[Callable[[], None]] = deque()
        self._until = 0
        self._busy = False

    def arrive(self, handle: Callable[[], None]) -> None:
        """Takes a message: at once, or when those before it are done."""
        self._waiting.append(handle)
        if not self._busy:
            self._serve()

    def sent(self) -> int:
        """Spends the time that a message takes; says when it leaves."""
        self._spend()
        return self._until

    def _spend(self) -> None:
        self._until = max(self._until, self._clock.now) + self._cost
        self.spent += self._cost

    def _serve(self) -> None:
        self._busy = True
        while self._waiting:
            if self._until > self._clock.now:
                self._at(self._until, self._serve)
                return
            self._spend()
            self._waiting.popleft()()
        self._busy = False
