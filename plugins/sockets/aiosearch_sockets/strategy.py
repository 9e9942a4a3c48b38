"""The strategy whose name brings this plugin's network."""

from __future__ import annotations

from aiosearch.strategies.queue import Queue


class Sockets(Queue):
    """The shared queue, for machines that join over TCP."""
