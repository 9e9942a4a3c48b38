"""`SpliceError`: what keeps a function from being traced and cut, or a replacement from fitting."""

from __future__ import annotations

from ...errors import AiosearchError


class SpliceError(AiosearchError):
    """A function that cannot be traced, or a replacement that does not fit; the
    message says why."""
