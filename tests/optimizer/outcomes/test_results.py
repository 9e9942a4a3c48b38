from __future__ import annotations

import dataclasses
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from answers import answer, key

from aiosearch import database
from aiosearch.optimizer.outcomes import results as answer_file
from aiosearch.optimizer.outcomes.answer import Answer
from aiosearch.optimizer.outcomes.results import (
    FORMAT,
    LATER,
    AnswerFile,
    Results,
    default_results_path,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "results.sqlite"


@pytest.fixture
def filled(path: Path) -> Path:
    fill(path, range(200))
    return path


def fill(path: Path, numbers: range) -> None:
    file = AnswerFile(path)
    file.put(answer(number) for number in numbers)
    file.close()


class Opened:
    """A store in use, with what it warned of."""

    def __init__(self, path: Path) -> None:
        self.warnings: list[str] = []
        self.results = Results.open(path, self.warnings.append)

    def numbers(self) -> set[int]:
        return {int(one.key.program, 16) for one in self.results.all()}


def asides(path: Path) -> list[Path]:
    return [p for p in path.parent.glob(f"{path.name}.damaged-*") if p.suffix[-4:-1] not in "wal"]


def test_a_path_may_be_text(path: Path) -> None:
    with Results.open(str(path)) as results:
        results.keep(answer(1))
    with Results.open(path) as results:
        assert results.find(key(1)) is not None


def test_an_answer_outlives_its_process(path: Path) -> None:
    """What one process keeps, the next one finds, every part of it."""
    kept = answer()
    with Results.open(path) as results:
        assert results.find(key()) is None
        results.keep(kept)
    with Results.open(path) as results:
        assert results.find(key()) == kept
        assert results.all() == [kept]


@pytest.mark.parametrize(
    "changed",
    [
        {"program": "f" * 32},
        {"types": ("bf16[512, 512]", "f32[512, 512]")},
        {"device": "cpu: another, 2 cores"},
        {"jax": "0.12.0"},
        {"jaxlib": "0.12.0"},
        {"strict": True},
        {"constant": (1,)},
        {"schema": 1},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_only_an_equal_question_gets_the_answer(path: Path, changed: dict[str, object]) -> None:
    """Another program, type, device, version or policy is another question."""
    with Results.open(path) as results:
        results.keep(answer())
        assert results.find(key(**changed)) is None
        results.keep(answer(key=key(**changed), name="other"))
        assert results.find(key()) == results.all()[1]


def test_a_newer_answer_takes_the_place_of_an_older_one(path: Path) -> None:
    """A question has one answer, and the last one kept comes first."""
    with Results.open(path) as results:
        for number in (1, 2, 1):
            results.keep(answer(number, effort=f"run {number}"))
        assert [one.effort for one in results.all()] == ["run 1", "run 2"]


def test_an_overfull_file_keeps_the_newest(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is bounded: new answers push out the oldest."""
    monkeypatch.setattr(answer_file, "ROWS", 10)
    opened = Opened(filled)
    opened.results.keep(answer(200))
    assert opened.numbers() == set(range(191, 201))
    opened.results.close()


def test_forgetting(filled: Path) -> None:
    """Some answers are forgotten, or all; how many there were is told."""
    with Results.open(filled) as results:
        assert results.forget([key(3), key(4), key(1000)]) == 2
        assert results.find(key(3)) is None
        assert results.find(key(5)) is not None
        assert results.forget() == 198
        assert results.all() == []


def test_exported_answers_stand_alone(path: Path, tmp_path: Path) -> None:
    """Each is a module that says what it is and runs without aiosearch."""
    with Results.open(path) as results:
        results.keep(answer(1))
        results.keep(answer(2, name="a/b <lambda>", faster=False))
        paths = results.export(tmp_path / "answers")
    assert [each.name.rpartition("_")[0] for each in paths] == ["a_b__lambda_", "trace_of_product"]
    assert "nothing faster was found" in paths[0].read_text()
    text = paths[1].read_text()
    assert "# proved — for all shapes\n#   b proof" in text
    assert "trace_of_product(f32[512, 512], f32[512, 512]) on cpu: AMD EPYC, 2 cores" in text
    assert "aiosearch" not in text
    names: dict[str, object] = {}
    exec(compile(text, "exported", "exec"), names)
    assert callable(names["trace_of_product"])


def test_threads_share_a_store(path: Path) -> None:
    """A host may ask on its own threads, so that its event loop never waits."""
    opened = Opened(path)

    def work(first: int) -> None:
        for number in range(first, first + 20):
            opened.results.keep(answer(number))
            assert opened.results.find(key(number)) is not None

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 10, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened.numbers() == {*range(30), *range(40, 60)}
    opened.results.close()
    assert opened.warnings == []


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from answers import answer
from aiosearch.optimizer.outcomes.results import Results

with Results.open(Path(sys.argv[1]), lambda told: print(told, file=sys.stderr)) as results:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        results.keep(answer(number))
"""


def writer(
    path: Path, first: int, last: int, prelude: str = "", **options: Any
) -> subprocess.Popen[str]:
    support = str(Path(__file__).parents[2] / "support")
    return subprocess.Popen(
        [sys.executable, "-c", prelude + WRITER, str(path), str(first), str(last), support],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_two_processes_keep_answers_at_once(path: Path) -> None:
    """Both make the same file at the same time, and every answer of both is in it."""
    writers = [writer(path, first, first + 100) for first in (0, 60)]
    for process in writers:
        assert process.stdout is not None
        process.stdout.readline()
    for process in writers:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60)[1] for process in writers] == ["", ""]
    opened = Opened(path)
    assert opened.numbers() == set(range(160))
    opened.results.close()


def test_a_process_killed_in_a_transaction(path: Path) -> None:
    """An answer that was being written is lost as a whole, and the file stays good."""
    environment = {**os.environ, "AIOSEARCH_FAULT": "answer.put:3"}
    process = writer(path, 0, 10, env=environment, start_new_session=True)
    process.communicate("\n", timeout=60)
    assert process.returncode == -9
    opened = Opened(path)
    assert opened.numbers() == {0, 1}
    opened.results.close()
    assert opened.warnings == []


def test_a_full_disk(path: Path) -> None:
    """When nothing more can be written, the owner is told once and the process goes on."""
    full = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000));"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    )
    process = writer(path, 0, 200, full)
    _, told = process.communicate("\n", timeout=60)
    assert process.returncode == 0
    assert told.count("\n") == 1
    assert "results are not kept in" in told


def a_text(path: Path) -> None:
    path.write_text("This is not a database.\n" * 100)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbage_pages(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[4096:] = random.Random(2).randbytes(len(raw) - 4096)
    path.write_bytes(raw)


def a_changed_source(path: Path) -> None:
    raw = path.read_bytes()
    assert b"jnp.sum(a * b.T)" in raw
    path.write_bytes(raw.replace(b"jnp.sum(a * b.T)", b"jnp.sum(a + b.T)"))


def a_row_of_another_type(path: Path) -> None:
    alter(path, "UPDATE answers SET answer = 17, sum = NULL")


def another_version(path: Path) -> None:
    alter(path, "PRAGMA user_version = 99")


def alter(path: Path, script: str) -> None:
    database = sqlite3.connect(path)
    database.executescript(script)
    database.close()


DAMAGES = [
    truncated, garbage_pages, a_changed_source, a_row_of_another_type, another_version,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_file_is_set_aside(damage: Callable[[Path], None], filled: Path) -> None:
    """It is renamed, told of once and never believed; a new file takes its place at once."""
    damage(filled)
    opened = Opened(filled)
    for number in range(200):
        assert opened.results.find(key(number)) in (None, answer_of(number, opened))
    opened.results.keep(answer(7000))
    opened.results.close()
    assert ["damaged" in warning for warning in opened.warnings] == [True]
    (aside,) = asides(filled)
    assert str(aside) in opened.warnings[0]
    again = Opened(filled)
    assert again.numbers() == {7000}
    again.results.close()
    assert again.warnings == []


def test_a_file_that_is_open_is_not_looked_at(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who closes a file loses all locks on it, those of connections too."""
    looks = []
    look = database._looks_ours
    monkeypatch.setattr(
        database, "_looks_ours", lambda *given: (looks.append(given), look(*given))[1]
    )
    first = AnswerFile(filled)
    second = AnswerFile(filled)
    database.require_ours(filled, FORMAT)
    with pytest.raises(database.ForeignError):
        database.require_ours(filled, dataclasses.replace(FORMAT, application_id=1))
    assert len(looks) == 1
    first.close()
    AnswerFile(filled).close()
    assert len(looks) == 1
    second.close()
    AnswerFile(filled).close()
    assert len(looks) == 2


def test_a_name_is_added_to_what_is_there(filled: Path) -> None:
    """A newer answer keeps what it is, and one that was forgotten stays so."""
    with Results.open(filled) as results:
        known = answer(1)
        results.keep(known)
        newer = msgspec.structs.replace(known, effort="exhaustive")
        results.keep(newer)
        results.name(known.key, "second")
        assert results.find(known.key) == newer.also("second")
        results.forget([known.key])
        results.name(known.key, "third")
        assert results.find(known.key) is None


def test_what_was_written_is_known_by_name(filled: Path) -> None:
    """What is in memory alone is not."""
    with Results.open(filled) as results:
        results.keep(answer(1))
        assert list(results.written) == ["trace_of_product"]
    a_text(filled)
    with Results.open(filled, print) as results:
        results.keep(answer(1))
        assert not results.written


def test_a_file_of_something_else_stays_as_it_is(filled: Path) -> None:
    """What a user names by mistake is told of once; answers are found in memory."""
    a_text(filled)
    before = filled.read_bytes()
    opened = Opened(filled)
    opened.results.keep(answer(7000))
    assert opened.results.find(key(7000)) is not None
    opened.results.close()
    (told,) = opened.warnings
    assert "something else, not a store of results" in told
    assert filled.read_bytes() == before
    assert list(filled.parent.iterdir()) == [filled]


def answer_of(number: int, opened: Opened) -> Answer | None:
    """The answer that was kept, but for its date."""
    found = opened.results.find(key(number))
    return None if found is None else answer(number, made=found.made)


@pytest.mark.parametrize("seed", range(10))
def test_no_damage_makes_a_wrong_answer(seed: int, filled: Path) -> None:
    """Bytes changed at random anywhere give the right answer or none."""
    rng = random.Random(seed)
    raw = bytearray(filled.read_bytes())
    for _ in range(rng.choice((1, 10, 1000))):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    filled.write_bytes(raw)
    opened = Opened(filled)
    for number in rng.sample(range(200), 20):
        assert opened.results.find(key(number)) in (None, answer_of(number, opened))
    opened.results.close()


def test_a_locked_file_is_done_without(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another program holds the file an answer stays in memory, and is written later."""
    monkeypatch.setattr(answer_file, "PATIENCE", 0.05)
    opened = Opened(filled)
    assert opened.results.find(key(5)) is not None
    holder = sqlite3.connect(filled, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    opened.results.keep(answer(7000))
    opened.results.keep(answer(7001))
    assert opened.results.find(key(7000)) is not None
    assert ["in use" in warning for warning in opened.warnings] == [True]
    holder.rollback()
    holder.close()
    opened.results.close()
    again = Opened(filled)
    assert again.numbers() == {*range(200), 7000, 7001}
    again.results.close()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A path that leads nowhere is told once, and answers are found in memory."""
    (tmp_path / "file").touch()
    opened = Opened(tmp_path / "file" / "results.sqlite")
    assert opened.results.find(key()) is None
    opened.results.keep(answer())
    assert opened.results.find(key()) is not None
    assert opened.results.all() == []
    opened.results.close()
    assert len(opened.warnings) == 1


def test_a_user_without_a_home_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However often a store is opened."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with caplog.at_level("WARNING", logger="aiosearch"):
        for _ in range(2):
            with Results.open() as opened:
                opened.keep(answer(1))
                assert opened.find(key(1)) is not None
    (told,) = caplog.messages
    assert told.endswith(": this user has no home folder, and XDG_CACHE_HOME is not set")


@pytest.fixture
def failing_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fails when something is first written."""
    put, failures = AnswerFile.put, ["the disk is full"]

    def failing(file: AnswerFile, answers: Iterable[Answer]) -> None:
        if failures:
            raise database.UnavailableError(failures.pop())
        put(file, answers)

    monkeypatch.setattr(AnswerFile, "put", failing)


@pytest.mark.usefixtures("failing_once")
def test_a_passing_trouble_passes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written is with the next one that can be, some seconds later."""
    opened = Opened(path)
    opened.results.keep(answer(1))
    assert "the disk is full" in opened.warnings[0]
    opened.results.keep(answer(2))
    assert opened.numbers() == set()
    monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + LATER)
    opened.results.keep(answer(3))
    assert opened.numbers() == {1, 2, 3}
    opened.results.close()
    assert len(opened.warnings) == 1


@pytest.mark.usefixtures("failing_once")
def test_a_store_that_is_closed_tries_once_more(path: Path) -> None:
    with Results.open(path, lambda text: None) as results:
        results.keep(answer(1))
    with Results.open(path) as again:
        assert [one.key for one in again.all()] == [key(1)]


def open_file(path: Path) -> Path:
    path.chmod(0o666)
    return path


def open_folder(path: Path) -> Path:
    path.parent.chmod(0o777)
    return path


def sticky_folder(path: Path) -> Path:
    """Nobody can take the file's place there, but put a log beside it, which SQLite reads."""
    path.parent.chmod(0o1777)
    return path


def open_folder_above(path: Path) -> Path:
    inner = path.parent / "inner"
    inner.mkdir(mode=0o700)
    path.rename(inner / path.name)
    path.parent.chmod(0o777)
    return inner / path.name


def link_into_an_open_folder(path: Path) -> Path:
    link = path.parent.parent / "link.sqlite"
    link.symlink_to(path)
    path.parent.chmod(0o777)
    return link


@pytest.mark.parametrize(
    "share", [open_file, open_folder, sticky_folder, open_folder_above, link_into_an_open_folder]
)
def test_a_file_that_others_can_write_is_done_without(
    share: Callable[[Path], Path], filled: Path
) -> None:
    """What it holds is run: who can write it could have anything run."""
    opened = Opened(share(filled))
    assert opened.results.find(key(1)) is None
    assert len(opened.warnings) == 1
    assert "others can write" in opened.warnings[0]
    opened.results.keep(answer(1))
    assert opened.results.find(key(1)) is not None
    opened.results.close()


def test_a_new_file_is_its_users_alone(path: Path) -> None:
    with Results.open(path) as results:
        results.keep(answer(1))
        assert {each.stat().st_mode & 0o77 for each in path.parent.iterdir()} == {0}


def test_the_default_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It follows XDG, and a store that is told nothing is there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_results_path() == tmp_path / "aiosearch" / "results.sqlite"
    with Results.open() as results:
        results.keep(answer())
    assert default_results_path().exists()
    assert os.stat(default_results_path().parent).st_mode & 0o777 == 0o700


def test_answers_are_values() -> None:
    """An answer says how much faster it is, and its id depends on its question alone."""
    one, two = answer(1), answer(1, effort="exhaustive", made=0.0)
    assert one.id == two.id != answer(2).id
    assert one.speedup == pytest.approx(10)
    assert msgspec.json.decode(msgspec.json.encode(one), type=Answer) == one
