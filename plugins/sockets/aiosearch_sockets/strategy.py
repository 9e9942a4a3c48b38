"""The strategy whose name brings this plugin's network."""

from __future__ import annotations

from aiosearch_stealing import Stealing


class Sockets(Stealing):
    """`Stealing` inside each machine, and machines that join over TCP."""
