"""What can be wrong with a kernel."""

from __future__ import annotations

from ...errors import AiosearchError


class NativeError(AiosearchError):
    """A kernel cannot be compiled, loaded or trusted here."""
