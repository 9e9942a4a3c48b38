"""What descends from this process is seen, however deep."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from aiosearch.comparing.family import Family, descendants

NESTED = """
import subprocess, sys
script = "import sys; print(1, flush=True); sys.stdin.read()"
inner = subprocess.Popen([sys.executable, "-c", script])
sys.stdin.read()
inner.kill()
inner.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_child_of_a_child_is_a_descendant_and_takes_memory() -> None:
    before = set(descendants(os.getpid()))
    command, pipe = [sys.executable, "-c", NESTED], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.read(1)
        found = set(descendants(os.getpid())) - before
        family = Family()
        family.look()
        child.stdin.close()
    assert child.pid in found
    assert len(found) == 2
    assert family.peak > 1 << 20
