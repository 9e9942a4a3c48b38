"""The strategy whose name brings this plugin's cluster."""

from __future__ import annotations

from aiosearch_stealing import Stealing


class Ray(Stealing):
    """A Ray cluster, and stealing through shared memory inside of each node."""

    breath = 0.01
    """A call of Ray's takes about a millisecond."""
