"""`OptimizeError`: what keeps a function from being optimized."""

from __future__ import annotations

from ..errors import AiosearchError


class OptimizeError(AiosearchError):
    """A function, a target or an answer that nothing can be done with; the message says why."""
