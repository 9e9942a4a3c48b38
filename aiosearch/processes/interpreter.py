"""The command line and environment with which another process runs one of our modules."""

from __future__ import annotations

import contextlib
import os
import sys


def command(module: str, *options: str) -> list[str]:
    """What is run; the folder where we are is not on its path, unless it is on ours."""
    return [sys.executable, "-P", *options, "-m", module]


def environment() -> dict[str, str]:
    """Ours, with our path."""
    return {**os.environ, "PYTHONPATH": search_path()}


def search_path() -> str:
    """What the child may import is what we may; an empty entry means where we are now."""
    found = [path for path in sys.path if path]
    if "" in sys.path:
        with contextlib.suppress(FileNotFoundError):  # the folder was deleted
            found.insert(sys.path.index(""), os.getcwd())
    return os.pathsep.join(found)
