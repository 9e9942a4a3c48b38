"""Workers of one machine take work from each other through shared memory."""

from __future__ import annotations

from .strategy import Stealing

__all__ = ["Stealing"]
