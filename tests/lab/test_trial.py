"""Real runs of small searches, whose figures are known."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from aiosearch.errors import WorkerError
from aiosearch.lab.arms import Arm, Verdicts
from aiosearch.lab.trial import Family, TrialOutcome, descendants, run_once
from aiosearch.testing import no_leaks
from aiosearch.workloads.shapes import Lopsided
from aiosearch.workloads.superopt import Superopt

TREE = Lopsided(spine=300, height=28)
PROGRAMS = Superopt("P1", 3, 8)


async def outcome(problem: object, arm: Arm) -> TrialOutcome:
    """Runs an arm; nothing of it may be left behind."""
    async with no_leaks():
        return await run_once(problem, arm)


@pytest.mark.parametrize("strategy", ["queue", "sockets"])
async def test_a_run_counts_what_happened(strategy: str) -> None:
    found = await outcome(TREE, Arm(strategy, "dfs", 2))
    assert found.complete
    assert (found.nodes, found.solutions) == (TREE.nodes, len(TREE.answers))
    assert found.steals > 0
    assert found.bytes > found.messages > found.steals
    assert found.memory > 1 << 20
    assert 0 <= found.idle_share < 1
    assert 0.5 <= found.balance <= 1
    assert len(found.worker_cpu) == 2
    assert max(found.worker_cpu) <= found.busiest <= found.cpu


async def test_a_static_split_moves_nothing() -> None:
    found = await outcome(TREE, Arm("queue", "dfs", 2, split="height1"))
    assert found.nodes == TREE.nodes
    assert found.steals == 0
    assert found.balance < 0.6


async def test_only_private_verdicts_have_a_question_asked_twice() -> None:
    verdicts: tuple[Verdicts, ...] = ("shared", "private")
    alone = await outcome(PROGRAMS, Arm("queue", "dfs", 1))
    shared, private = [
        await outcome(PROGRAMS, Arm("queue", "dfs", 2, each, "locked", "height1"))
        for each in verdicts
    ]
    assert shared.checks == alone.checks > 0
    assert private.checks >= shared.checks
    assert shared.answer == private.answer == alone.answer


async def test_a_run_that_takes_too_long_is_broken_off() -> None:
    found = await run_once(Lopsided(height=60), Arm("queue", "dfs", 1), seconds=0.2)
    assert not found.complete


async def test_machines_that_do_not_come_are_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aiosearch.lab.ready_pool.MODULE", "aiosearch.no_such_module")
    async with no_leaks():
        with pytest.raises(WorkerError, match="not all of 2 workers came to serve sockets"):
            await run_once(TREE, Arm("sockets", "dfs", 2))


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
