"""Heartbeats: whether the other end of a link is still there.

An end sends a `Pulse` now and then and closes the link when it has heard nothing for its patience.
"""

from __future__ import annotations

import asyncio

from .links import Link

PATIENCE = 5.0
"""Seconds without a word after which the other end counts as gone."""
LEAST_BEATS = 5
"""Beats in an end's patience."""
BEAT = PATIENCE / LEAST_BEATS
"""Most seconds between two beats: one that is patient is heard by one that is less so."""


class Heartbeat:
    """Says now and then that somebody is here, and closes a link on which nobody is heard.

    Beats are counted, not seconds: a loop that was held up itself has missed one beat, however
    long it was, and what came in meanwhile is heard before the next.
    """

    def __init__(self, link: Link, pulse: bytes, patience: float = PATIENCE) -> None:
        self._link = link
        self._pulse = pulse
        self._patience = patience
        self._interval = min(patience / LEAST_BEATS, BEAT)
        self._missed = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._beat)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def heard(self) -> None:
        self._missed = 0

    def _beat(self) -> None:
        self._missed += 1
        if self._missed > self._patience / self._interval:
            self._timer = None
            self._link.close(
                f"nothing was heard of {self._link.peer} for {self._patience:g} seconds"
            )
            return
        self._link.send(self._pulse)
        self.start()
