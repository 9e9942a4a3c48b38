"""What a user got wrong on the command line."""

from __future__ import annotations

from ..errors import AiosearchError


class UsageError(AiosearchError):
    """One sentence for stderr: what was wrong, where, and what to do."""
