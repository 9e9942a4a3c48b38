"""What keeps a function from being cut, or a replacement from being put in."""

from __future__ import annotations

from ...errors import AiosearchError


class SpliceError(AiosearchError):
    """A function that cannot be traced, or a replacement that does not fit; says why."""
