"""Tables of records: files that several processes write, and people read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aiosearch.tuner import RecordTable, TableError, TuningRecord, read_seeds


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "tables" / "tuned.json"


def record(rows: int, block: int = 1, **more: object) -> TuningRecord:
    fields = {"kernel": "k", "device": "d", "decisions": {"block": block}} | more
    configuration = {"block": block, "tile": (4, block)}
    return TuningRecord(arguments=(f"f32[{rows},4]", "0.5"), configuration=configuration, **fields)  # type: ignore[arg-type]  # a test's own


def test_a_record_comes_back_as_it_was(path: Path) -> None:
    RecordTable(path).put(record(8, 4, speedup=(2.0, 1.5, 2.5), checked="proved"))
    again = RecordTable(path).find("k", "d", ("f32[8,4]", "0.5"))
    assert again == record(8, 4, speedup=(2.0, 1.5, 2.5), checked="proved")
    assert again.configuration["tile"] == (4, 4)


def test_the_file_is_the_same_whatever_was_written_first(path: Path) -> None:
    RecordTable(path).put(record(8), record(16))
    first = path.read_bytes()
    path.unlink()
    RecordTable(path).put(record(16))
    RecordTable(path).put(record(8))
    assert path.read_bytes() == first
    assert first.count(b"\n") > 20


def test_processes_that_write_at_once_lose_nothing(path: Path) -> None:
    script = (
        "import sys\n"
        "from aiosearch.tuner import RecordTable, TuningRecord\n"
        "first, path = int(sys.argv[1]), sys.argv[2]\n"
        "for number in range(first, first + 10):\n"
        "    RecordTable(path).put(TuningRecord(kernel='k', device='d', configuration={},\n"
        "        decisions={}, arguments=(str(number),)))\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(10 * at), str(path)]) for at in range(3)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(RecordTable(path).records) == 30


def test_the_nearest_record_is_that_of_the_most_similar_extents(path: Path) -> None:
    table = RecordTable(path)
    table.put(record(8), record(64), record(1024))
    near = table.nearest("k", "d", ("f32[48,4]", "0.5"))
    assert near is not None
    assert near.arguments[0] == "f32[64,4]"


@pytest.mark.parametrize(
    "arguments", [("bf16[8,4]", "0.5"), ("f32[8,4]", "0.25"), ("f32[8]", "0.5")]
)
def test_what_differs_in_more_than_extents_is_not_near(
    path: Path, arguments: tuple[str, ...]
) -> None:
    table = RecordTable(path)
    table.put(record(8))
    assert table.nearest("k", "d", arguments) is None


@pytest.mark.parametrize("text", ["", "[]", '{"records": 3}', '{"format": 9, "records": []}'])
def test_what_is_no_table_is_refused_by_name(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(TableError, match=str(path)):
        _ = RecordTable(path).records


def test_a_table_that_is_absent_is_empty(path: Path) -> None:
    assert RecordTable(path).records == ()


@pytest.mark.parametrize(
    ("content", "seeds"),
    [
        ([{"block": 64}, {"block": 64}, {"block": 8}], [{"block": 64}, {"block": 8}]),
        ({"f32[8]": {"block": 64, "tile": [2, 4]}}, [{"block": 64, "tile": (2, 4)}]),
        (
            {
                '{"x":"bf16[8,64]"}': {
                    '{"block_m":64,"num_warps":4}': {"evaluation_times_ms": [3.0, 2.0]},
                    '{"block_m":128,"num_warps":8}': {"evaluation_times_ms": [1.0]},
                }
            },
            [{"block_m": 128, "num_warps": 8}, {"block_m": 64, "num_warps": 4}],
        ),
    ],
    ids=["a list", "a mapping", "tokamax"],
)
def test_tables_of_others_are_read_as_seeds(tmp_path: Path, content: Any, seeds: Any) -> None:
    path = tmp_path / "seeds.json"
    path.write_text(json.dumps(content))
    assert read_seeds(path) == seeds


def test_a_table_of_ours_is_read_as_seeds(tmp_path: Path) -> None:
    table = RecordTable(tmp_path / "table.json")
    table.put(record(8, 64))
    assert read_seeds(table.path) == [{"block": 64}]


def test_a_file_without_configurations_is_said(tmp_path: Path) -> None:
    path = tmp_path / "seeds.json"
    path.write_text("[1, 2]")
    with pytest.raises(TableError, match="has no configurations"):
        read_seeds(path)
