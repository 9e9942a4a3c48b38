"""Programs in the memory of a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RIDDLED = Path(__file__).parents[2] / "support" / "riddled.py"


@pytest.mark.skipif(sys.platform != "linux", reason="knows where Linux finds room")
def test_where_room_is_scarce() -> None:
    """A process with large arrays has small gaps between them, and a program's parts may not fit.

    Its code reaches its constants over two gigabytes at most.
    """
    ended = subprocess.run(
        [sys.executable, RIDDLED],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
