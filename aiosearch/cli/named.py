"""Files that a user names."""

from __future__ import annotations

from pathlib import Path


def is_file(name: str | Path) -> bool:
    """Whether there is one of that name; of a name that none can have, there is none."""
    try:
        return Path(name).is_file()
    except OSError:
        return False
