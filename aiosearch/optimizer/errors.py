"""`OptimizeError` and `SpliceError`: what keeps a function from being optimized, traced or cut."""

from __future__ import annotations

from ..errors import AiosearchError


class OptimizeError(AiosearchError):
    """A function, a target or an answer that nothing can be done with; the message says why."""


class SpliceError(AiosearchError):
    """A function that cannot be traced, or a replacement that does not fit; the
    message says why."""
