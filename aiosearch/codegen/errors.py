"""`NativeError` and `CannotPrint`: what keeps a kernel from being printed, compiled or trusted."""

from __future__ import annotations

from ..errors import AiosearchError


class NativeError(AiosearchError):
    """A kernel cannot be compiled, loaded or trusted on this machine; the message says which one
    and why."""


class CannotPrint(AiosearchError):
    """A kernel, or a tiling of it, that has no Pallas text: says what is in the way."""
