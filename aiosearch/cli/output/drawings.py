"""Drawings of programs in a folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ...folders import replace_file
from ...tensor import Program
from ...tensor.drawing import draw
from .files import require_place
from .streams import UsageError


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
    name = re.sub(r"\W+", "_", program.name)
    path = folder / f"{name}-{number}.svg"
    try:
        replace_file(path, draw(program).encode())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    return str(path)
