"""Files that a command writes beside its result; an option that was not given writes none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .usage import UsageError


def require_place(path: str | None) -> None:
    """What has nowhere to be written is said before anything is searched; leaves nothing there."""
    if path is None:
        return
    place = Path(path).expanduser()
    if not place.absolute().parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {Path(path).parent}")
    is_new = not place.exists()
    try:
        with place.open("ab"):
            pass
        if is_new:
            place.unlink()
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def write(path: str | None, made: Callable[[], str]) -> None:
    """Writes what is made only where it is wanted."""
    if path is None:
        return
    try:
        Path(path).expanduser().write_text(made(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
