"""What descends from this process is seen, however deep."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from aiosearch.lab.process_family import Family, descendants

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


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_who_works_is_told_from_who_waits() -> None:
    """By CPU seconds since the start of watching, of each process of a kind."""
    works = "import sys, time; print(1, flush=True); sys.stdin.read(); x = 0\nwhile True: x += 1"
    waits = "import sys; print(1, flush=True); sys.stdin.read(); sys.stdin.read()"
    with _started(works) as working, _started(waits) as waiting:
        family = Family()
        assert working.stdin is not None
        working.stdin.close()
        while family.cpu < 0.1:
            time.sleep(0.01)
        assert max(family.cpu_of(works)) >= 0.1
        assert family.cpu_of(waits) == pytest.approx((0.0,), abs=0.05)
        working.kill()
        waiting.kill()


def _started(script: str) -> subprocess.Popen[bytes]:
    """A process that has come to where it reads its input."""
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe)
    assert child.stdout is not None
    child.stdout.read(1)
    return child
