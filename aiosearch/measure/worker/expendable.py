"""Whether this process may die of what it runs, without anyone losing more than a candidate."""

from __future__ import annotations

_expendable = False


def become_expendable() -> None:
    """Marks the process as expendable, for as long as it lives."""
    global _expendable
    _expendable = True


def is_expendable() -> bool:
    """Whether this is an executor's process; a user's own is not."""
    return _expendable
