"""Journals: what was measured, in one file that several processes write and that may be killed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from aiosearch.tuner import Measurement, TableError
from aiosearch.tuner.journals import HOME, JournalLine, MeasurementJournal, SearchName
from aiosearch.tuner.space.traces import Trace

SEARCH = SearchName("k", ("f32[8]",), "d", "text", "jax")
WRITING = """
import sys
from aiosearch.tuner import Measurement
from aiosearch.tuner.journals import MeasurementJournal, SearchName
from aiosearch.tuner.space.traces import Trace

first, count = map(int, sys.argv[1:])
with MeasurementJournal(SearchName("k", ("f32[8]",), "d", "text", "jax")) as journal:
    for block in range(first, first + count):
        journal.write(Measurement(Trace((), {"block": block}), 1.0))
        print(block, flush=True)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "aiosearch"


def measured(block: int, seconds: float | None = 1.0, gate: str = "") -> Measurement:
    return Measurement(Trace((), {"block": block, "tile": (4, block)}), seconds, gate)


def write(*measurements: Measurement, search: SearchName = SEARCH) -> None:
    with MeasurementJournal(search) as journal:
        for measurement in measurements:
            journal.write(measurement)


def lines(search: SearchName = SEARCH) -> list[JournalLine]:
    with MeasurementJournal(search) as journal:
        return list(journal.lines())


def blocks(search: SearchName = SEARCH) -> list[object]:
    return [line.decisions["block"] for line in lines(search)]


def test_a_measurement_comes_back_as_it_was(cache: Path) -> None:
    write(measured(8, 0.5), measured(16, None, "compile"))
    first, second = lines()
    assert first == JournalLine({"block": 8, "tile": (4, 8)}, 0.5)
    assert (second.seconds, second.gate) == (None, "compile")


def test_a_point_that_is_measured_again_is_there_once(cache: Path) -> None:
    write(measured(8, 0.5), measured(16), measured(8, 0.25))
    assert [(line.decisions["block"], line.seconds) for line in lines()] == [(16, 1.0), (8, 0.25)]


@pytest.mark.parametrize("field", ["kernel", "arguments", "device", "source", "versions"])
def test_what_a_time_depends_on_tells_searches_apart(cache: Path, field: str) -> None:
    write(measured(8))
    other = {**msgspec.to_builtins(SEARCH), field: ("other",) if field == "arguments" else "other"}
    assert lines(SearchName(**{**other, "arguments": tuple(other["arguments"])})) == []


def test_processes_that_write_at_once_lose_nothing(cache: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITING, str(100 * at), "100"], stdout=subprocess.DEVNULL
        )
        for at in range(3)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert sorted(map(int, map(str, blocks()))) == list(range(300))


def test_what_was_written_before_a_kill_is_there(cache: Path) -> None:
    """Killed as soon as it says that the tenth is written, which is one of many."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITING, "0", "100000"], stdout=subprocess.PIPE, text=True
    ) as victim:
        assert victim.stdout is not None
        said = [int(victim.stdout.readline()) for _ in range(10)]
        victim.kill()
        said += map(int, victim.stdout.read().split())
    assert victim.returncode == -signal.SIGKILL
    kept = blocks()
    assert kept[: len(said)] == said
    assert len(kept) <= len(said) + 1


def test_another_search_is_begun_with_the_times_of_an_ended_one(cache: Path) -> None:
    """And not with its failures, whose cause may have been mended."""
    with MeasurementJournal(SEARCH) as journal:
        journal.write(measured(8))
        journal.write(measured(16, None, "numbers"))
        journal.end()
    write(measured(32, None, "numbers"))
    assert blocks() == [8, 32]


def test_what_an_ended_search_measured_can_be_left_out(cache: Path) -> None:
    with MeasurementJournal(SEARCH) as journal:
        journal.write(measured(8))
        journal.end()
        journal.write(measured(16))
        journal.forget_ended()
    assert blocks() == [16]


def test_a_function_without_a_text_leaves_nothing_behind(cache: Path) -> None:
    nameless = SearchName("k", ("f32[8]",), "d", "", "jax")
    with MeasurementJournal(nameless) as journal:
        journal.write(measured(8))
        journal.end()
    assert lines(nameless) == []


def test_what_an_older_version_wrote_is_taken_over(cache: Path) -> None:
    """A last line that was cut off is left out."""
    SEARCH.path.parent.mkdir(parents=True)
    SEARCH.path.write_bytes(b'{"decisions":{"block":[1,2]},"seconds":0.5}\n{"decisions":{"bl')
    assert lines() == [JournalLine({"block": (1, 2)}, 0.5)]
    assert not SEARCH.path.exists()
    assert lines() == [JournalLine({"block": (1, 2)}, 0.5)]


def test_a_row_that_rots_is_left_out(cache: Path) -> None:
    write(measured(8), measured(16))
    with sqlite3.connect(cache / HOME) as database:
        database.execute("UPDATE measurements SET line = x'7b7d' WHERE id = 1")
    database.close()
    assert blocks() == [16]


def test_a_damaged_file_is_set_aside(cache: Path) -> None:
    cache.mkdir()
    (cache / HOME).write_bytes(b"no database")
    write(measured(8))
    assert blocks() == [8]
    assert [path.read_bytes() for path in cache.glob(f"{HOME}.damaged-*")] == [b"no database"]


def test_where_nothing_can_be_kept_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(TableError, match=r"cannot keep measurements in .*tuning\.sqlite"):
        write(measured(8))
