from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from testkit.hosts.os_limits import powerless

from aiosearch import database
from aiosearch.checks import (
    Reason,
    Status,
    Verdict,
    Verifier,
    cache_stats,
    clear_cache,
    default_cache_path,
    store,
)
from aiosearch.checks import cache as cache_module
from aiosearch.checks.cache import Cache
from aiosearch.checks.store import VerdictStore
from aiosearch.errors import AiosearchError

PROVED = Verdict(Status.PROVED, "", 0, 0.25)
UNKNOWN = Verdict(Status.UNKNOWN, Reason.RESOURCE_LIMIT, 1000, 0.5)


def name(number: int) -> bytes:
    return number.to_bytes(16, "big")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "verdicts.sqlite"


@pytest.fixture
def filled(path: Path) -> Path:
    fill(path, range(2000))
    return path


def fill(path: Path, numbers) -> None:
    opened = VerdictStore(path)
    opened.insert([(name(number), PROVED) for number in numbers])
    opened.close()


class Opened:
    """A cache in use, with what it warned of."""

    def __init__(self, path: Path) -> None:
        self.warnings: list[str] = []
        self.cache = Cache(path, self.warnings.append)

    async def fetch(self, number: int) -> Verdict | None:
        reply = asyncio.get_running_loop().create_future()
        self.cache.fetch(name(number), reply.set_result)
        return await reply

    async def put_and_close(self, number: int) -> None:
        self.cache.put(name(number), PROVED)
        await self.cache.close()


def asides(path: Path) -> list[Path]:
    return [p for p in path.parent.glob(f"{path.name}.damaged-*") if p.suffix[-4:-1] not in "wal"]


async def test_verdicts_survive_the_service(path, goals):
    """What one service found out, the next one knows from disk."""
    for number in range(2):
        async with Verifier(cache=path, axioms=goals.axioms) as verifier:
            assert (await verifier.check(goals.proved())).status is Status.PROVED
            assert (await verifier.check(goals.refuted())).status is Status.REFUTED
            assert (await verifier.check(goals.endless(2000))).rlimit == 2000
            statistics = verifier.statistics()
            assert (statistics.checks, statistics.disk_hits) == [(3, 0), (0, 3)][number]
    statistics = cache_stats(path)
    assert (statistics.proved, statistics.refuted, statistics.unknown) == (1, 1, 1)


async def test_an_unknown_on_disk_serves_its_budget_only(path, goals):
    """A larger budget asks z3 again, and the better answer takes the place of the old one."""
    for budget, checks in ((2000, 1), (2000, 0), (1000, 0), (4000, 1), (3000, 0)):
        async with Verifier(cache=path) as verifier:
            assert (await verifier.check(goals.endless(budget))).status is Status.UNKNOWN
            assert verifier.statistics().checks == checks
    assert cache_stats(path).entries == 1


async def test_what_may_go_better_next_time_is_not_written(path, goals):
    """A time limit depends on the machine: it is remembered in memory only."""
    async with Verifier(cache=path, seconds=0.05) as verifier:
        verdict = await verifier.check(goals.endless())
        assert verdict.reason == Reason.TIME_LIMIT
        assert await verifier.check(goals.endless()) is verdict
    assert cache_stats(path).entries == 0


async def test_whoever_keeps_verdicts_elsewhere_is_told_of_each_that_is_new(path, goals):
    """Whether it comes from z3 or from disk, but for what may go better next time."""
    for _ in range(2):
        noted = {}
        async with Verifier(cache=path, axioms=goals.axioms, seconds=0.5) as verifier:
            verifier.share([], noted.__setitem__)
            await verifier.check(goals.endless())
            verdict = await verifier.check(goals.proved())
            assert await verifier.check(goals.proved()) == verdict
        assert noted == {goals.digest(goals.proved()): verdict}


async def test_what_is_known_elsewhere_is_neither_asked_nor_noted_nor_written(path, goals):
    noted = {}
    async with Verifier(cache=path, axioms=goals.axioms) as verifier:
        verifier.share([(goals.digest(goals.proved()), PROVED)], noted.__setitem__)
        assert await verifier.check(goals.proved()) == PROVED
    assert (verifier.statistics().checks, noted, cache_stats(path).entries) == (0, {}, 0)


async def test_two_askers_of_one_stored_verdict_share_a_read(path, goals):
    """Joining works while the disk is being asked, too."""
    for _ in range(2):
        async with Verifier(cache=path) as verifier:
            await asyncio.gather(*(verifier.check(goals.refuted()) for _ in range(3)))
            statistics = verifier.statistics()
    assert (statistics.disk_hits, statistics.joined, statistics.checks) == (1, 2, 0)


async def test_dropping_while_the_disk_is_asked(path, goals):
    """A question dropped before the disk has answered never reaches z3."""
    async with Verifier(cache=path) as verifier:
        question = goals.refuted()
        verifier.drop(verifier.ask(goals.digest(question), question, lambda verdict: None))
        await verifier.check(goals.refuted(2))
        assert verifier.statistics().checks == 1


async def test_a_miss_does_not_touch_the_disk(filled):
    """Once the file is open, what it does not hold is known without asking it."""
    opened = Opened(filled)
    assert opened.cache.may_hold(name(5000))
    assert await opened.fetch(5000) is None
    assert not opened.cache.may_hold(name(5000))
    assert opened.cache.may_hold(name(1999))
    assert await opened.fetch(1999) == PROVED
    await opened.cache.close()
    assert opened.warnings == []


async def test_the_dict_is_bounded(filled, monkeypatch):
    """What no longer fits in memory is found on disk."""
    monkeypatch.setattr(cache_module, "REMEMBERED", 16)
    monkeypatch.setattr(cache_module, "BATCH", 10)
    opened = Opened(filled)
    await opened.fetch(0)
    for number in range(3000, 3100):
        opened.cache.put(name(number), PROVED)
    assert opened.cache.recall(name(3000), 1) is None
    assert opened.cache.recall(name(3099), 1) == PROVED
    assert opened.cache.may_hold(name(3000))
    assert await opened.fetch(3000) == PROVED
    await opened.cache.close()


def test_an_overfull_file_keeps_the_newest(filled, monkeypatch):
    """The file is bounded as well: new rows push out the oldest."""
    monkeypatch.setattr(store, "ROWS", 100)
    opened = VerdictStore(filled)
    opened.insert([(name(2000), PROVED)])
    assert opened.digests() == {name(number) for number in range(1901, 2001)}
    opened.close()


def a_text(path: Path) -> None:
    path.write_text("This is not a database.\n" * 100)


def random_bytes(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(50_000))


def a_short_file(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:50])


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def truncated_within_a_page(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def garbage_pages(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[4096:] = random.Random(2).randbytes(len(raw) - 4096)
    path.write_bytes(raw)


def a_flipped_byte_in_a_row(path: Path) -> None:
    """Turns proved into refuted in every row, without a trace for SQLite."""
    raw = path.read_bytes()
    assert b"\xa6proved" in raw
    path.write_bytes(raw.replace(b"\xa6proved", b"\xa6profed"))


def a_swapped_verdict(path: Path) -> None:
    alter(path, "UPDATE verdicts SET verdict = x'94a7726566757465640000cb0000000000000000'")


def a_row_of_another_type(path: Path) -> None:
    alter(path, "UPDATE verdicts SET verdict = 17, sum = NULL")


def another_table(path: Path) -> None:
    alter(path, "DROP TABLE verdicts; CREATE TABLE verdicts (key TEXT, value TEXT)")


def another_version(path: Path) -> None:
    alter(path, "PRAGMA user_version = 99")


def somebody_elses(path: Path) -> None:
    path.unlink()
    alter(path, "CREATE TABLE letters (sender TEXT)")


def alter(path: Path, script: str) -> None:
    database = sqlite3.connect(path)
    database.executescript(script)
    database.close()


DAMAGES = [
    a_short_file, truncated, truncated_within_a_page, garbage_pages, a_flipped_byte_in_a_row,
    a_swapped_verdict, a_row_of_another_type, another_table, another_version,
]  # fmt: skip
FOREIGN = [a_text, random_bytes, somebody_elses]


@pytest.mark.parametrize(
    "damage", [d for d in DAMAGES if d is not truncated_within_a_page], ids=lambda d: d.__name__
)
async def test_a_damaged_file_is_set_aside(damage, filled):
    """It is renamed, told of once and never believed; a new file takes its place at once."""
    damage(filled)
    before = filled.read_bytes()
    opened = Opened(filled)
    for number in (0, 1000, 1999):
        assert await opened.fetch(number) in (None, PROVED)
    await opened.put_and_close(7000)
    assert len(opened.warnings) == 1
    assert "is damaged" in opened.warnings[0]
    (aside,) = asides(filled)
    assert str(aside) in opened.warnings[0]
    assert len(aside.read_bytes()) == len(before)
    again = Opened(filled)
    assert await again.fetch(7000) == PROVED
    assert await again.fetch(0) is None
    await again.cache.close()
    assert again.warnings == []


@pytest.mark.parametrize("damage", FOREIGN, ids=lambda damage: damage.__name__)
async def test_a_file_of_something_else_stays_as_it_is(damage, filled):
    """What a user names by mistake is told of once, and neither renamed nor written."""
    damage(filled)
    before = filled.read_bytes()
    opened = Opened(filled)
    assert await opened.fetch(0) is None
    await opened.put_and_close(7000)
    (told,) = opened.warnings
    assert "something else, not a verdict cache" in told
    assert filled.read_bytes() == before
    assert list(filled.parent.iterdir()) == [filled]


@pytest.mark.parametrize("damage", FOREIGN, ids=lambda damage: damage.__name__)
async def test_at_home_something_else_is_damage(damage, monkeypatch, tmp_path):
    """Nobody named that file, so it is set aside and the cache begun anew."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fill(default_cache_path(), range(3))
    damage(default_cache_path())
    opened = Opened(default_cache_path())
    await opened.put_and_close(7000)
    assert ["is damaged" in told for told in opened.warnings] == [True]
    assert len(asides(default_cache_path())) == 1
    assert cache_stats(default_cache_path()).proved == 1


@pytest.mark.parametrize(
    ("damage", "warnings"),
    [(a_text, {1}), (somebody_elses, {1}), (truncated, {0, 1}), (a_flipped_byte_in_a_row, {0, 1})],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_the_service_outlives_a_damaged_file(damage, warnings, path, goals):
    """Whatever the file says, the answer is z3's; damage that SQLite cannot see has no warning."""
    async with Verifier(cache=path) as verifier:
        await verifier.check(goals.refuted())
    fill(path, range(2000))
    damage(path)
    heard = []
    async with Verifier(cache=path, warn=heard.append) as verifier:
        assert (await verifier.check(goals.refuted())).status is Status.REFUTED
    assert len(heard) in warnings


@pytest.mark.parametrize("seed", range(20))
async def test_no_damage_makes_a_wrong_verdict(seed, filled):
    """Bytes changed at random anywhere give the right verdict or none."""
    rng = random.Random(seed)
    raw = bytearray(filled.read_bytes())
    for _ in range(rng.choice((1, 10, 1000))):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    filled.write_bytes(raw)
    opened = Opened(filled)
    for number in rng.sample(range(2000), 50):
        assert await opened.fetch(number) in (None, PROVED)
    await opened.put_and_close(7000)


async def test_a_damaged_log_is_not_believed(filled):
    """Garbage in the write-ahead log is ignored or set aside."""
    random_bytes(Path(f"{filled}-wal"))
    opened = Opened(filled)
    assert await opened.fetch(3) in (None, PROVED)
    await opened.put_and_close(7000)


async def test_a_file_that_another_process_set_aside_is_left_alone(filled):
    """Of two that find the damage only one renames; the other goes on with the new file."""
    inode = database.inode_of(filled)
    assert database.set_aside(filled, inode) is not None
    fill(filled, range(3))
    assert database.set_aside(filled, inode) is None
    assert cache_stats(filled).proved == 3


async def test_a_locked_file_is_done_without(filled, monkeypatch):
    """When another program holds the file, the work goes on in memory and the owner is told."""
    monkeypatch.setattr(store, "PATIENCE", 0.05)
    holder = sqlite3.connect(filled, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    holder.execute("DELETE FROM verdicts WHERE id = 1")
    opened = Opened(filled)
    assert await opened.fetch(5) is None
    await opened.put_and_close(7000)
    assert ["locked" in warning for warning in opened.warnings] == [True]
    assert opened.cache.recall(name(7000), 1) == PROVED
    holder.rollback()
    holder.close()
    assert cache_stats(filled).proved == 2000


async def test_a_lock_that_goes_away_costs_nothing(filled, monkeypatch):
    """While another process writes, verdicts wait; they are written when it has finished."""
    monkeypatch.setattr(store, "PATIENCE", 0.05)
    opened = Opened(filled)
    await opened.fetch(5)
    writer = sqlite3.connect(filled, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    for number in range(3000, 3300):
        opened.cache.put(name(number), PROVED)
    assert await opened.fetch(6) == PROVED
    writer.rollback()
    writer.close()
    await opened.put_and_close(7000)
    assert len(opened.warnings) == 1
    assert "in use" in opened.warnings[0]
    assert cache_stats(filled).proved == 2301


async def test_a_folder_that_cannot_be_made(tmp_path):
    """A path that leads nowhere is told, and the work goes on in memory."""
    (tmp_path / "file").touch()
    opened = Opened(tmp_path / "file" / "verdicts.sqlite")
    assert await opened.fetch(1) is None
    await opened.put_and_close(1)
    assert len(opened.warnings) == 1


@pytest.fixture(name="powerless")
def _powerless():
    with powerless():
        yield


@pytest.fixture
def read_only():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "verdicts.sqlite"
        fill(path, range(10))
        path.chmod(0o444)
        path.parent.chmod(0o555)
        yield path
        path.parent.chmod(0o755)


@pytest.mark.parametrize("file", ["verdicts.sqlite", "other.sqlite"])
async def test_a_read_only_folder(file, read_only, powerless):
    """Neither an old file nor the lack of one is fatal where nothing can be written."""
    opened = Opened(read_only.with_name(file))
    assert await opened.fetch(1) in (None, PROVED)
    await opened.put_and_close(20)
    assert len(opened.warnings) == 1


async def test_a_damaged_file_that_cannot_be_renamed(read_only, powerless, request):
    """It is left where it is, and neither read nor written."""
    euid = os.geteuid()
    os.seteuid(os.getuid())
    a_text(read_only)
    os.seteuid(euid)
    opened = Opened(read_only)
    assert await opened.fetch(1) is None
    await opened.put_and_close(20)
    assert len(opened.warnings) == 1


WRITER = """
import asyncio, resource, signal, sys
from pathlib import Path
from aiosearch.checks import Status, Verdict
from aiosearch.checks.cache import Cache

async def main(path, first, count):
    cache = Cache(Path(path), lambda message: print(message, file=sys.stderr))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(first, first + count):
        cache.put(number.to_bytes(16, "big"), Verdict(Status.PROVED, "", 0, 0.25))
        if number % 100 == 0:
            await asyncio.sleep(0.001)
    await cache.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


def writer(path: Path, first: int, count: int, prelude: str = "", **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", prelude + WRITER, str(path), str(first), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_two_processes_write_one_new_file(path):
    """Both make the same file at the same time, and every verdict of both is in it."""
    writers = [writer(path, first, 3000) for first in (0, 2000)]
    for process in writers:
        process.stdout.readline()
    for process in writers:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate(timeout=30)[1] for process in writers] == ["", ""]
    statistics = cache_stats(path)
    assert (statistics.proved, statistics.damaged) == (5000, 0)


def test_a_process_killed_in_a_transaction(path):
    """Between insert and commit a batch is lost as a whole, and the file stays good."""
    environment = {**os.environ, "AIOSEARCH_FAULT": "verdict.insert:3"}
    process = writer(path, 0, 3000, env=environment, start_new_session=True)
    process.communicate("\n", timeout=30)
    assert process.returncode == -9
    statistics = cache_stats(path)
    assert (statistics.proved, statistics.damaged) == (512, 0)


def test_a_full_disk(path):
    """When nothing more can be written, the owner is told once and the process goes on."""
    full = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000));"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    )
    process = writer(path, 0, 20_000, prelude=full)
    _, told = process.communicate("\n", timeout=30)
    assert process.returncode == 0
    assert told.count("\n") == 1
    assert "is not used any more" in told
    assert cache_stats(path).damaged == 0


def test_counting_and_clearing(path):
    """The console script can count a file's verdicts and remove them."""
    assert cache_stats(path).entries == 0
    assert clear_cache(path) == 0
    assert not path.exists()
    fill(path, range(1000))
    opened = VerdictStore(path)
    opened.insert([(b"u" * 16, UNKNOWN), (b"r" * 16, Verdict(Status.REFUTED))])
    opened.close()
    before = cache_stats(path)
    assert (before.proved, before.refuted, before.unknown, before.entries) == (1000, 1, 1, 1002)
    assert clear_cache(path) == 1002
    after = cache_stats(path)
    assert after.entries == 0
    assert after.size < before.size


def test_old_verdicts_are_removed_by_their_age(path, monkeypatch):
    """What was written so long ago goes, and the newest stay; the age of the oldest is told."""
    now = time.time()
    for days, number in ((40, 1), (20, 2), (0, 3)):
        monkeypatch.setattr(store.time, "time", lambda days=days: now - 86_400 * days)
        fill(path, [number])
    stats = cache_stats(path)
    assert (stats.oldest, stats.limit) == (now - 86_400 * 40, store.ROWS)
    assert clear_cache(path, before=now - 86_400 * 30) == 1
    assert cache_stats(path).oldest == now - 86_400 * 20
    assert clear_cache(path, keep=1) == 1
    assert cache_stats(path).oldest == now
    assert clear_cache(path, before=now + 1) == 1


async def test_clearing_while_it_is_used(filled):
    """A process that uses the file finds nothing, and goes on writing."""
    opened = Opened(filled)
    await opened.fetch(5000)
    assert clear_cache(filled) == 2000
    assert opened.cache.may_hold(name(3))
    assert await opened.fetch(3) is None
    await opened.put_and_close(7000)
    assert opened.warnings == []
    assert cache_stats(filled).entries == 1


@pytest.mark.parametrize("function", [cache_stats, clear_cache])
def test_a_file_that_is_no_cache_is_not_touched(function, path):
    """Counting and clearing refuse another program's file with a sentence."""
    path.parent.mkdir()
    somebody_elses(path) if path.exists() else alter(path, "CREATE TABLE letters (sender TEXT)")
    before = path.read_bytes()
    with pytest.raises(AiosearchError, match="not a verdict cache, and is left as it is"):
        function(path)
    assert path.read_bytes() == before


def test_damaged_rows_are_counted(filled):
    """`cache_stats` tells how many rows are not what was written."""
    alter(filled, "UPDATE verdicts SET sum = x'00' WHERE id <= 7")
    statistics = cache_stats(filled)
    assert (statistics.proved, statistics.damaged) == (1993, 7)


def test_the_default_path(monkeypatch, tmp_path):
    """It follows XDG, and ignores a relative `XDG_CACHE_HOME` as XDG says."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_path() == tmp_path / "aiosearch" / "verdicts.sqlite"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache_path() == tmp_path / ".cache" / "aiosearch" / "verdicts.sqlite"


async def test_the_default_cache_is_used(monkeypatch, tmp_path, goals):
    """A service that is told nothing keeps its verdicts in the default file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    async with Verifier() as verifier:
        await verifier.check(goals.refuted())
    assert cache_stats().refuted == 1
