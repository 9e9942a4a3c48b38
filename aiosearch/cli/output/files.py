"""Files and drawings that a command writes beside its result; an option not given writes none."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...folders import replace_file
from .streams import UsageError

if TYPE_CHECKING:
    from ...tensor import Program


def require_folder(path: str | None) -> None:
    """What has nowhere to be drawn is said before anything is searched; makes the folder."""
    if path is None:
        return
    folder = Path(path).expanduser()
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"--svg {path}: {error.strerror}") from None
    require_place(str(folder / "drawing.svg"))


def draw_all(folder: str | None, programs: Sequence[Program]) -> list[str]:
    """Draws programs as NAME-1.svg and so on, and names the files; each is there whole or not."""
    if folder is None:
        return []
    place = Path(folder).expanduser()
    return [_drawn(place, number, program) for number, program in enumerate(programs, 1)]


def _drawn(folder: Path, number: int, program: Program) -> str:
    from ...tensor.drawing import draw  # most commands draw nothing, and it loads NumPy

    name = re.sub(r"\W+", "_", program.name)
    path = folder / f"{name}-{number}.svg"
    try:
        replace_file(path, draw(program).encode())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    return str(path)


_STANDING = ("/dev", "/proc")
"""What is here stands for something else, as /dev/stdout may for a file."""


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


def require_other(flag: str, path: str | None, uses: Mapping[Path, str]) -> None:
    """Refuses to write over these files, whatever links lead there; each comes with what it is."""
    if path is None:
        return
    place = Path(path).expanduser()
    for used, what in uses.items():
        if os.path.exists(place) and os.path.exists(used) and place.samefile(used):
            raise UsageError(f"{flag} {path} would write over {what}; name another file")


def require_drawing(path: str | None) -> None:
    """The same of an SVG file, whose name has to say that it is one."""
    if path is not None and Path(path).suffix.lower() != ".svg":
        raise UsageError(f"a plot is SVG: give it a name as plot.svg, not {path}")
    require_place(path)


def _replaced(place: Path, content: bytes) -> bool:
    """Whether the file could be: none is that something is mounted on, or that is another's."""
    try:
        replace_file(place, content)
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.EPERM):
            raise
        return False
    return True


def write(path: str | None, text: Callable[[], str]) -> None:
    """Writes what is made only where it is wanted; a file is there whole, or as it was.

    What is no file, or lies where none can be put in its place, is written as it stands.
    """
    if path is None:
        return
    place, content = Path(path).expanduser(), text().encode()
    try:
        is_file = place.is_file() or not place.exists()
        destination = place.resolve()
        plain = is_file and not any(map(place.absolute().is_relative_to, _STANDING))
        if not (
            plain and os.access(destination.parent, os.W_OK) and _replaced(destination, content)
        ):
            place.write_bytes(content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
