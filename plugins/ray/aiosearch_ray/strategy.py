"""The strategy whose name brings this plugin's cluster."""

from __future__ import annotations

from aiosearch.strategies.queue import Queue


class Ray(Queue):
    """The shared queue, on a Ray cluster."""
