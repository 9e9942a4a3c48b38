"""Workers of one machine take work from each other through shared memory; see `Stealing`."""

from __future__ import annotations

from .strategy import Stealing

__all__ = ["Stealing"]
