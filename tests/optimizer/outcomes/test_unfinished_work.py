"""Work that was done before an optimization was killed is not done again."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from aiosearch.optimizer.outcomes import unfinished_work
from aiosearch.optimizer.outcomes.unfinished_work import WorkKind, WorkRecord, WorkStore

SCRIPT = Path(__file__).parents[2] / "support" / "logged_optimization.py"
QUESTION = b"question"


class Outcome(msgspec.Struct, frozen=True):
    number: int


def optimized(tmp_path: Path, log: str, fault: str = "") -> tuple[int, Counter[str]]:
    """The exit code of a run in a process of its own, and the work that it has done, a line for
    each piece; the original runs for each check anew, and so its runs are left out."""
    path = tmp_path / log
    process = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "results.sqlite", path],
        env={**os.environ, "AIOSEARCH_FAULT": fault},
        start_new_session=True,  # it kills its process group
        timeout=120,
        check=False,
    )
    lines = path.read_text().splitlines() if path.exists() else []
    # The first that runs is the original, for which inputs are looked for.
    original = next((line.split()[1] for line in lines if line.startswith("run")), "")
    units = (line for line in lines if not line.startswith(f"run {original} "))
    return process.returncode, Counter(dict.fromkeys(map(_unit, units), 1))


def _unit(line: str) -> str:
    """The unit of work that a line belongs to: a candidate's runs on all inputs are one check."""
    kind, *rest = line.split()
    return f"run {rest[0]}" if kind == "run" else line


@pytest.mark.parametrize("units", [6, 9, 12])
def test_a_run_after_one_that_was_killed_repeats_under_a_fifth_of_it(
    tmp_path: Path, units: int
) -> None:
    """Killed while a unit of work is being written, which is repeated, with those that wait for
    that; what has ended is remembered as ever."""
    code, before = optimized(tmp_path, "killed.log", f"work.put:{units}")
    assert before.total() > 4
    assert code == -9
    code, after = optimized(tmp_path, "next.log")
    assert code == 0
    repeated = before & after
    # Of little work, the unit that was being written and the search that it is part of are much.
    assert repeated.total() <= max(2, before.total() / 5), repeated
    assert optimized(tmp_path, "last.log") == (0, Counter())


@pytest.fixture
def store(tmp_path: Path) -> WorkStore:
    return WorkStore(tmp_path / "results.sqlite")


def record(store: WorkStore) -> WorkRecord:
    return WorkRecord(store, QUESTION)


class Working:
    """A unit of work that counts how often it is done."""

    def __init__(self, outcome: object = None) -> None:
        self.done = 0
        self.outcome = Outcome(3) if outcome is None else outcome

    async def __call__(self) -> object:
        self.done += 1
        return self.outcome


async def test_a_unit_is_done_once_in_all_processes(store: WorkStore) -> None:
    work = Working()
    for _ in range(2):
        once = await record(store).once(WorkKind.CHECK, ("a", 1), Outcome, work)
        assert once == Outcome(3)
    assert work.done == 1
    await record(store).once(WorkKind.CHECK, ("a", 2), Outcome, work)
    assert work.done == 2
    store.close()


async def test_a_race_that_is_run_again_is_another_race(store: WorkStore) -> None:
    work = Working()
    for _ in range(2):
        asking = record(store)
        for _ in range(3):
            await asking.once(WorkKind.RACE, ("a",), Outcome, work)
    assert work.done == 3
    await record(store).forget([WorkKind.RACE])
    await record(store).once(WorkKind.RACE, ("a",), Outcome, work)
    assert work.done == 4
    store.close()


async def test_a_failure_is_not_kept(store: WorkStore) -> None:
    work = Working("it failed")
    for _ in range(2):
        assert await record(store).once(WorkKind.CHECK, ("a",), Outcome, work) == "it failed"
    assert work.done == 2
    store.close()


@pytest.mark.parametrize("damage", ["row", "file"])
async def test_what_is_damaged_is_done_again(store: WorkStore, tmp_path: Path, damage: str) -> None:
    work = Working()
    await record(store).once(WorkKind.CHECK, ("a",), Outcome, work)
    store.close()
    path = tmp_path / f"results.sqlite{unfinished_work.SUFFIX}"
    if damage == "row":
        with sqlite3.connect(path) as database:
            database.execute("UPDATE work SET result = ?", (b"other",))
        database.close()
    else:
        path.write_bytes(b"SQLite format 3\0" + b"no database" * 3)
    for _ in range(2):
        assert await record(store).once(WorkKind.CHECK, ("a",), Outcome, work) == Outcome(3)
        assert await record(store).once(WorkKind.CHECK, ("b",), Outcome, work) == Outcome(3)
    assert work.done <= 1 + 3
    store.close()


def test_the_oldest_work_goes_where_there_is_no_room(
    store: WorkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished_work, "MOST_BYTES", 1000)
    for number in range(11):
        store.put(QUESTION, WorkKind.RACE, bytes([number]), bytes(100))
    left = [bool(store.get(QUESTION, WorkKind.RACE, bytes([number]))) for number in range(11)]
    assert left == [False] * 6 + [True] * 5
    store.close()


def test_a_store_in_memory_keeps_nothing(tmp_path: Path) -> None:
    nowhere = WorkRecord.nowhere().store
    nowhere.put(QUESTION, WorkKind.RACE, b"a", b"b")
    assert nowhere.get(QUESTION, WorkKind.RACE, b"a") is None
    nowhere.close()
