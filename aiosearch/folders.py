"""Where aiosearch keeps what it remembers for a user."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Gives `$XDG_CACHE_HOME/aiosearch`, in `~/.cache` without that variable."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path.home() / ".cache"
    return base / "aiosearch"


def make_folder(path: Path) -> None:
    """Makes a folder that is its user's alone, whatever the umask says; one that is there stays."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
