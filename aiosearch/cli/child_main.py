"""A command as a child process that ends with its parent: how `aiosearch bench` starts machines."""

from __future__ import annotations

import os
import sys

from ..processes.frames import enter_child
from . import main as console_script


def main() -> None:
    _, arguments = enter_child()
    with open(os.devnull, "wb") as nowhere:  # what it says is for nobody
        os.dup2(nowhere.fileno(), 2)
    sys.exit(console_script(arguments))


if __name__ == "__main__":
    main()
