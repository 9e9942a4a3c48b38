"""`CannotPrint`, the error of what the printer cannot say."""

from __future__ import annotations

from ...errors import AiosearchError


class CannotPrint(AiosearchError):
    """A kernel, or a tiling of it, that has no Pallas text: says what is in the way."""
