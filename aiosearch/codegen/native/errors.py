"""The error of native kernels."""

from __future__ import annotations

from ...errors import AiosearchError


class NativeError(AiosearchError):
    """A kernel cannot be compiled, loaded or trusted on this machine; the message says which one
    and why."""
