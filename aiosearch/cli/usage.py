"""What a user got wrong on the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ..errors import AiosearchError


class UsageError(AiosearchError):
    """One sentence for stderr: what was wrong, where, and what to do."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Gives ` (did you mean a or b?)` for known names that look like `name`, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=3)
    return f" (did you mean {' or '.join(close)}?)" if close else ""
