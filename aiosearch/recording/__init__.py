"""Recordings: the tree that a search walked, and what each node took, to be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from ..lab.recording.format import Footer, Header, RecordingError
    from ..lab.recording.recorder import record
    from ..lab.recording.replay import Recorded, load

__all__ = ["Footer", "Header", "Recorded", "RecordingError", "load", "record"]

_HOMES = {
    "Footer": "..lab.recording.format",
    "Header": "..lab.recording.format",
    "Recorded": "..lab.recording.replay",
    "RecordingError": "..lab.recording.format",
    "load": "..lab.recording.replay",
    "record": "..lab.recording.recorder",
}

__getattr__ = lazily(__name__, _HOMES)
