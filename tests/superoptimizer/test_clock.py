from __future__ import annotations

import subprocess
import sys

from aiosearch.superoptimizer.clock import Clock, cpu_seconds

BURNS = "import time\nwhile time.process_time() < 0.2: pass"


def test_children_that_have_ended_count_too() -> None:
    before = cpu_seconds()
    subprocess.run([sys.executable, "-c", BURNS], check=True)
    assert cpu_seconds() - before >= 0.2


def test_each_thing_takes_what_came_since_the_one_before() -> None:
    clock = Clock()
    subprocess.run([sys.executable, "-c", BURNS], check=True)
    clock.took("burning")
    clock.took("nothing")
    assert clock.seconds["burning"] >= 0.2 > clock.seconds["nothing"] >= 0
