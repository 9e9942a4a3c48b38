"""The strategy whose name brings this plugin's cluster."""

from __future__ import annotations

from aiosearch_stealing import Stealing


class Ray(Stealing):
    """`Stealing` inside each node of a Ray cluster."""

    breath = 0.01
    """Seconds, see `Begin.breath`: a call of Ray's takes about a millisecond."""
