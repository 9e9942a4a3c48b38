"""What the console script's exit codes mean."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """How a command ended."""

    FINE = 0
    """The search is complete or has reached a limit, whether or not there are solutions."""
    FAILED = 1
    """The search, or an essential check of `doctor`, failed."""
    USAGE = 2
    """The user got something wrong; nothing was searched."""
    INTERRUPTED = 130
    """Ctrl-C or SIGTERM."""
