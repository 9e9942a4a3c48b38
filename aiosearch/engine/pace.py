"""How fast a search goes, as of lately."""

from __future__ import annotations

from collections import deque

PACE_SECONDS = 3.0
"""Over how long the rate of nodes is taken, at least."""
REPORT_SHARE = 0.02
"""Reports come this share of the elapsed time apart, so that a crash repeats little of it."""


class Pace:
    """The rate of nodes over the last few reports; in a long search they come seconds apart."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, now: float, nodes: int) -> float:
        """Nodes per second, given how many there are now."""
        seen = self._seen
        seen.append((now, nodes))
        window = max(PACE_SECONDS, 3 * REPORT_SHARE * now)
        while len(seen) > 2 and seen[0][0] < now - window:
            seen.popleft()
        before, fewer = seen[0]
        return (nodes - fewer) / (now - before) if now > before else 0.0
