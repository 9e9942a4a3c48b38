"""`user_frame`: the line of a user's own code at which an error was raised."""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path

import jax
import numpy as np

_OTHERS = tuple(
    f"{folder}{os.sep}"
    for folder in (
        Path(__file__).parents[1],
        *jax.__path__,
        *np.__path__,
        sysconfig.get_path("stdlib"),
    )
)
_PACKAGES = tuple(f"{sysconfig.get_path(kind)}{os.sep}" for kind in ("purelib", "platlib"))


def user_frame(error: BaseException) -> str:
    """Gives ` (file.py:3)`, of the innermost line that is not jax's, ours or Python's own.

    Gives nothing where there is no such line.
    """
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)
    ]
    return f" ({_short(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""


def _is_users(file: str) -> bool:
    if file.startswith("<frozen"):
        return False
    installed = file.startswith(_PACKAGES)  # in a folder of Python's own, often
    return not file.startswith(_OTHERS[:-1] if installed else _OTHERS)


def _short(file: str) -> str:
    """A path relative to the current folder, where the file is in there."""
    try:
        return file.removeprefix(f"{os.getcwd()}{os.sep}")
    except OSError:  # the folder was deleted
        return file
