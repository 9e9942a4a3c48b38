"""The command line and environment with which another process runs one of our modules."""

from __future__ import annotations

import contextlib
import os
import sys


def command(module: str, *options: str) -> list[str]:
    """The command that runs `module`; `-P` keeps the folder where we are off its path, unless
    it is on ours."""
    return [sys.executable, "-P", *options, "-m", module]


def environment() -> dict[str, str]:
    """This process's environment, with its `search_path`."""
    return {**os.environ, "PYTHONPATH": search_path()}


def search_path() -> str:
    """What the child may import is what this process may; an empty entry means where we are now."""
    folders = [path for path in sys.path if path]
    if "" in sys.path:
        with contextlib.suppress(FileNotFoundError):  # the folder was deleted
            folders.insert(sys.path.index(""), os.getcwd())
    return os.pathsep.join(folders)
