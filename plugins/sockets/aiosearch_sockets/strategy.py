"""The strategy whose name brings this plugin's network."""

from __future__ import annotations

from aiosearch_stealing import Stealing


class Sockets(Stealing):
    """Machines that join over TCP, and stealing through shared memory inside of each."""
