"""Files that a command writes beside its result; an option that was not given writes none."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from .usage import UsageError


def require_place(path: str | None) -> None:
    """What has nowhere to be written is said before anything is searched; leaves nothing there."""
    if path is None:
        return
    place = Path(path).expanduser()
    try:
        if not place.absolute().parent.is_dir():
            raise UsageError(f"cannot write {path}: there is no folder {Path(path).parent}")
        is_new = not place.exists()
        with place.open("ab"):
            pass
        if is_new:
            place.unlink()
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def require_other(flag: str, path: str | None, taken: Mapping[Path, str]) -> None:
    """Refuses to write over these files, whatever links lead there; each comes with what it is."""
    if path is None:
        return
    place = Path(path).expanduser()
    for one, what in taken.items():
        if os.path.exists(place) and os.path.exists(one) and place.samefile(one):
            raise UsageError(f"{flag} {path} would write over {what}; name another file")


def require_drawing(path: str | None) -> None:
    """The same of an SVG file, whose name has to say that it is one."""
    if path is not None and Path(path).suffix.lower() != ".svg":
        raise UsageError(f"a plot is SVG: give it a name as plot.svg, not {path}")
    require_place(path)


def write(path: str | None, made: Callable[[], str]) -> None:
    """Writes what is made only where it is wanted; a new file is there whole, or not at all."""
    if path is None:
        return
    place, text = Path(path).expanduser(), made()
    is_new = not os.path.exists(place)
    try:
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        if is_new:
            with suppress(OSError):
                place.unlink()
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
