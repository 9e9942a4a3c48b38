"""Recordings: the tree that a search walked, and what each node took, to be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .format import Footer, Header, RecordingError
    from .recorder import record
    from .replay import Recorded, load

__all__ = ["Footer", "Header", "Recorded", "RecordingError", "load", "record"]

_HOMES = {
    "Footer": ".format",
    "Header": ".format",
    "Recorded": ".replay",
    "RecordingError": ".format",
    "load": ".replay",
    "record": ".recorder",
}

__getattr__ = lazily(__name__, _HOMES)
