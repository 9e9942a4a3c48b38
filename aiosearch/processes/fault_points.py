"""Named places at which a test may kill the process group, so that crash safety can be shown.

Nothing happens unless `AIOSEARCH_FAULT` names a place: `AIOSEARCH_FAULT=journal.batch:3` kills the
whole process group when that place is reached for the third time.
"""

from __future__ import annotations

import os
import signal

_place, _, _count = os.environ.get("AIOSEARCH_FAULT", "").partition(":")
_left = int(_count or 1)


def armed(place: str) -> bool:
    """Says whether this very passage through `place` is the one to die in."""
    global _left
    if place != _place:
        return False
    _left -= 1
    return _left == 0


def point(place: str) -> None:
    """Dies here, with the whole process group, when this passage is the chosen one: see `armed`."""
    if armed(place):
        die()


def die() -> None:
    os.killpg(0, signal.SIGKILL)
