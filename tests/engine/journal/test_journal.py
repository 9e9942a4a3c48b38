from __future__ import annotations

import asyncio
import fcntl
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testkit.hosts.os_limits import full_disk

from aiosearch.engine.journal import journal as journal_module
from aiosearch.engine.journal import replay as replay_module
from aiosearch.engine.journal.journal import Journal
from aiosearch.engine.journal.records import (
    JournalHeader,
    JournalRecord,
    JournalState,
    OpenSubtree,
    lines,
    seal,
)
from aiosearch.engine.journal.replay import read_header, replay
from aiosearch.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = JournalHeader(
    "0.1.2", "zoo:Problem", b"p", "Problem(p=1)", "dfs", "queue", 7, "tuple[int, ...]"
)


def opened(id: int, blob: bytes = b"blob") -> OpenSubtree:
    return OpenSubtree(id, 0, 0.5, 3, blob, 2, 0.25)


def added_up(records: list[JournalRecord]) -> JournalState:
    state = JournalState(HEADER)
    for record in records:
        state.apply(record)
    return state


def facts(state: JournalState) -> tuple[Any, ...]:
    keys = b"".join(state.keys)
    return state.open, state.counts, state.solutions, keys, pytest.approx(state.seconds)


async def written(path: Path, records: list[JournalRecord]) -> None:
    journal = await Journal.create(path, HEADER, pytest.fail, *records[:1])
    for record in records[1:]:
        journal.write(record)
    await journal.close()


async def resumed(path: Path, header: JournalHeader = HEADER) -> tuple[JournalState, list[str]]:
    warnings: list[str] = []
    journal, state = await Journal.resume(path, header, warnings.append)
    await journal.close()
    return state, warnings


def churn(count: int) -> list[JournalRecord]:
    """Each record closes the bundle that the one before opened."""
    return [
        JournalRecord(
            closed=(n - 1,) if n else (),
            opened=(opened(n, bytes(1000)),),
            counts={"nodes": 1},
            solutions=(b"%d" % n,) if n % 100 == 0 else (),
            keys=n.to_bytes(16, "big") if n % 10 == 0 else b"",
            seconds=0.25,
        )
        for n in range(count)
    ]


async def test_a_resumed_search_knows_what_was_written(tmp_path: Path) -> None:
    """Open bundles, counts, solutions in order, keys and time come back."""
    path = tmp_path / "j"
    records = [
        JournalRecord(opened=(opened(0),), seconds=1.5),
        JournalRecord(
            (0,), (opened(1), opened(2, b"\x00\xff")), {"nodes": 5}, (b"b", b"a"), b"k" * 16
        ),
        JournalRecord((1,), (), {"nodes": 2, "pruned": 1}, (b"c",), b"l" * 32, 0.5),
    ]
    await written(path, records)
    state, warnings = await resumed(path)
    assert state.open == {2: opened(2, b"\x00\xff")}
    assert state.counts == {"nodes": 7, "pruned": 1}
    assert state.solutions == [b"b", b"a", b"c"]
    assert b"".join(state.keys) == b"k" * 16 + b"l" * 32
    assert (state.seconds, state.next_id, state.header) == (2.0, 3, HEADER)
    assert warnings == []


async def test_a_journal_never_lacks_its_first_record(tmp_path: Path) -> None:
    """A search killed at its start is not taken for one that has nothing left to do."""
    path = tmp_path / "j"
    journal = await Journal.create(path, HEADER, pytest.fail, churn(1)[0])
    assert b"opened" in path.read_bytes()
    await journal.close()


async def test_a_solution_found_twice_is_kept_once(tmp_path: Path) -> None:
    """Solutions with equal bytes are one, in the place of the first."""
    await written(
        tmp_path / "j",
        [JournalRecord(solutions=(b"a", b"b")), JournalRecord(solutions=(b"c", b"a"))],
    )
    state, _ = await resumed(tmp_path / "j")
    assert state.solutions == [b"a", b"b", b"c"]


async def test_a_bundle_may_replace_itself(tmp_path: Path) -> None:
    """A record that closes and opens one id leaves the new bundle open."""
    await written(
        tmp_path / "j",
        [JournalRecord(opened=(opened(0),)), JournalRecord((0,), (opened(0, b"less"),))],
    )
    state, _ = await resumed(tmp_path / "j")
    assert state.open == {0: opened(0, b"less")}


async def test_infinite_priorities_stay_in_order(tmp_path: Path) -> None:
    """JSON has no infinity: the largest finite numbers take its place."""
    bundles = [
        msgspec.structs.replace(opened(n), priority=priority)
        for n, priority in enumerate((-math.inf, 1.0, math.inf))
    ]
    await written(tmp_path / "j", [JournalRecord(opened=tuple(bundles))])
    state, _ = await resumed(tmp_path / "j")
    largest = sys.float_info.max
    assert [bundle.priority for bundle in state.open.values()] == [-largest, 1.0, largest]


def tuples(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=3).map(tuple)


RECORDS = st.lists(
    st.builds(
        JournalRecord,
        closed=tuples(st.integers(0, 9)),
        opened=tuples(st.builds(opened, st.integers(0, 9), st.binary(max_size=9))),
        counts=st.dictionaries(st.sampled_from(["nodes", "pruned"]), st.integers(0, 2**40)),
        solutions=tuples(st.binary(max_size=3)),
        keys=st.lists(st.binary(min_size=16, max_size=16), max_size=2).map(b"".join),
        seconds=st.floats(0, 1e6),
    ),
    max_size=6,
)


@settings(max_examples=100)
@given(RECORDS, st.data())
def test_a_journal_cut_anywhere_gives_its_whole_records(
    records: list[JournalRecord], data: st.DataObject
) -> None:
    """Whatever byte a crash stopped at, the state is that of the records before it."""
    lines = [seal(HEADER), *map(seal, records)]
    text = b"".join(lines)
    cut = data.draw(st.integers(len(lines[0]), len(text)))
    whole = text[:cut].count(b"\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "j")
        path.write_bytes(text[:cut])
        state, warnings = asyncio.run(resumed(path))
        assert facts(state) == facts(added_up(records[: whole - 1]))
        assert len(warnings) == (cut != sum(map(len, lines[:whole])))
        assert path.read_bytes() == b"".join(lines[:whole])


@settings(max_examples=50)
@given(RECORDS)
def test_a_snapshot_adds_up_to_its_state(records: list[JournalRecord]) -> None:
    """The records of a snapshot give the state that it was taken of, as it was then."""
    state = added_up(records)
    expected = facts(added_up(records))
    snapshot = state.snapshot()
    state.apply(
        JournalRecord(tuple(range(10)), (opened(77),), {"more": 1}, (b"later",), b"x" * 16, 1.0)
    )
    assert facts(added_up(list(snapshot))) == expected


async def test_a_torn_end_is_cut_off_and_written_over(tmp_path: Path) -> None:
    """A crash in the middle of a batch costs that line; the journal goes on after it."""
    path = tmp_path / "j"
    await written(path, churn(3))
    path.write_bytes(path.read_bytes()[:-5])
    warnings: list[str] = []
    journal, state = await Journal.resume(path, HEADER, warnings.append)
    assert facts(state) == facts(added_up(churn(2)))
    assert "which a crash had torn" in warnings[0]
    journal.write(churn(3)[2])
    await journal.close()
    state, warnings = await resumed(path)
    assert facts(state) == facts(added_up(churn(3)))
    assert warnings == []


async def test_damage_in_the_middle_is_refused(tmp_path: Path) -> None:
    """A bad line that good ones follow is no crash's doing: nothing is guessed or cut."""
    path = tmp_path / "j"
    await written(path, churn(4))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"nodes", b"modes")
    path.write_bytes(b"".join(lines))
    with pytest.raises(JournalError, match="line 3 is damaged, but line 4 after it is not"):
        await resumed(path)
    assert path.read_bytes() == b"".join(lines)


async def test_half_a_snapshot_is_refused(tmp_path: Path) -> None:
    """A file cut inside its snapshot lacks open work, so it is not taken for the whole."""
    path = tmp_path / "j"
    parts = list(added_up(churn(5)).snapshot())
    path.write_bytes(seal(HEADER) + b"".join(map(seal, parts[:2])))
    with pytest.raises(JournalError, match="ends at line 3, before its last part"):
        await resumed(path)


@pytest.mark.parametrize(
    ("change", "was", "now"),
    [
        ({"problem": "zoo:Other"}, "zoo:Problem", "zoo:Other"),
        ({"parameters": b"q", "parameters_text": "Problem(p=2)"}, "Problem(p=1)", "Problem(p=2)"),
        ({"parameters": b"q"}, "parameters", "print alike"),
        ({"node_type": "list"}, "tuple[int, ...]", "list"),
        ({"aiosearch": "0.2.0"}, "0.1.2", "0.2.0"),
        ({"format": 2}, "format 1", "format 2"),
    ],
)
async def test_another_searchs_journal_is_refused(
    tmp_path: Path, change: dict[str, Any], was: str, now: str
) -> None:
    """What the nodes mean must agree, and the message shows both sides."""
    await written(tmp_path / "j", [])
    with pytest.raises(JournalError, match=f"{re.escape(was)}.*{re.escape(now)}"):
        await resumed(tmp_path / "j", msgspec.structs.replace(HEADER, **change))
    await resumed(tmp_path / "j")  # the refused one let go of it


async def test_how_the_search_goes_on_may_change(tmp_path: Path) -> None:
    """Order, strategy, seed and the patch release may differ; the state shows what they were."""
    await written(tmp_path / "j", churn(2))
    changed = msgspec.structs.replace(
        HEADER, order="bfs", strategy="stealing", seed=8, aiosearch="0.1.9"
    )
    state, _ = await resumed(tmp_path / "j", changed)
    assert state.header == HEADER


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "nothing to resume"),
        (b"notes\n", "not a journal"),
        (seal(HEADER)[:-9], "not a journal"),
        (seal(JournalRecord()), "not a journal"),
        (seal(HEADER) + b"%08x %b\n" % (zlib.crc32(b"[1]"), b"[1]"), "line 2 is no record"),
    ],
    ids=["missing", "empty", "text", "torn header", "no header", "no record"],
)
async def test_what_is_no_journal_is_refused(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    """Every file that cannot be resumed is refused with a reason, and left as it is."""
    path = tmp_path / "j"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(JournalError, match=message):
        await resumed(path)
    assert (path.read_bytes() if path.exists() else None) == content


async def test_a_journal_is_never_overwritten(tmp_path: Path) -> None:
    """Starting where a journal lies says how to go on with it; an empty file is no journal."""
    path = tmp_path / "j"
    path.touch()
    await written(path, churn(2))
    before = path.read_bytes()
    with pytest.raises(JournalError, match="--resume"):
        await Journal.create(path, HEADER, pytest.fail)
    assert path.read_bytes() == before


async def test_an_unwritable_place_is_an_error(tmp_path: Path) -> None:
    """A path that cannot be written is named."""
    with pytest.raises(JournalError, match=r"cannot use the journal .*/nowhere/j: No such file"):
        await Journal.create(tmp_path / "nowhere" / "j", HEADER, pytest.fail)


async def test_a_disk_that_is_full_from_the_start_is_an_error_and_keeps_nothing(
    tmp_path: Path,
) -> None:
    with full_disk(), pytest.raises(JournalError, match=r"the journal .*too large"):
        await Journal.create(tmp_path / "j", HEADER, pytest.fail)
    assert os.listdir(tmp_path) == []


async def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    """Two searches never write one journal, neither before nor after a snapshot."""
    path = tmp_path / "j"
    journal = await Journal.create(path, HEADER, pytest.fail)
    for _ in range(2):
        with pytest.raises(JournalError, match="another search"):
            await Journal.create(path, HEADER, pytest.fail)
        with pytest.raises(JournalError, match="another search"):
            await Journal.resume(path, HEADER, pytest.fail)
        await journal._compact()
    assert read_header(path) == HEADER
    await journal.close()
    await resumed(path)


async def test_a_file_replaced_while_it_is_opened_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opens a journal just before its owner's last snapshot gets the snapshot."""
    path = tmp_path / "j"
    await written(path, churn(1))
    flock = fcntl.flock
    copies = [path.read_bytes()]

    def replace_first(fd: int, operation: int) -> None:
        if copies:
            path.with_name("copy").write_bytes(copies.pop())
            path.with_name("copy").replace(path)
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", replace_first)
    journal, _ = await Journal.resume(path, HEADER, pytest.fail)
    journal.write(churn(2)[1])
    await journal.close()
    state, _ = await resumed(path)
    assert one_open(state) == 2


async def test_snapshots_keep_the_state_and_shrink_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records given while snapshots are written are in the journal all the same."""
    monkeypatch.setattr(journal_module, "COMPACT_BYTES", 50_000)
    path = tmp_path / "j"
    journal = await Journal.create(path, HEADER, pytest.fail)
    records = churn(100_000)
    given = 0
    while journal.statistics().snapshots < 3:
        journal.write(records[given])
        given += 1
        await asyncio.sleep(0 if given % 100 else 0.001)  # threads that write come to their turn
    await journal.close()
    statistics = journal.statistics()
    assert statistics.records == given
    assert path.stat().st_size < statistics.bytes / 2
    state, warnings = await resumed(path)
    assert facts(state) == facts(added_up(records[:given]))
    assert os.listdir(tmp_path) == ["j"]
    assert warnings == []


async def test_a_large_state_is_snapshot_in_small_lines(tmp_path: Path) -> None:
    """No line of a snapshot is much larger than 64 KB, unless one bundle is."""
    records = [
        JournalRecord(opened=(opened(n, bytes(3000)),), solutions=(b"%9d" % n,)) for n in range(99)
    ]
    journal = await Journal.create(tmp_path / "j", HEADER, pytest.fail)
    for record in records:
        journal.write(record)
    await journal._flush()
    await journal._compact()
    await journal.close()
    assert max(map(len, (tmp_path / "j").read_bytes().splitlines())) < 80 * 1024
    state, _ = await resumed(tmp_path / "j")
    assert facts(state) == facts(added_up(records))


async def test_closing_twice_leaves_no_descriptor(tmp_path: Path) -> None:
    """Close may be called twice, and gives the file back."""
    await written(tmp_path / "warm", [])
    before = len(os.listdir("/proc/self/fd"))
    journal = await Journal.create(tmp_path / "j", HEADER, pytest.fail)
    await journal.close()
    await journal.close()
    with pytest.raises(JournalError):
        await Journal.create(tmp_path / "j", HEADER, pytest.fail)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_journal_never_stops_in_silence(tmp_path: Path) -> None:
    """What cannot be written by any means is told at once, and raised when the journal closes."""
    told = asyncio.Queue[str]()
    journal = await Journal.create(tmp_path / "j", HEADER, told.put_nowait)
    journal.write(JournalRecord(counts={"nodes": object()}))  # type: ignore[dict-item]
    assert "stopped: TypeError" in await told.get()
    assert not journal.statistics().trusted
    with pytest.raises(TypeError):
        await journal.close()


async def test_resuming_lets_the_loop_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a large journal is read, by a clock that each look at it moves on."""
    path, looks = tmp_path / "j", itertools.count()
    with path.open("wb") as file:
        file.write(seal(HEADER))
        for n in range(10_000):
            file.write(seal(JournalRecord((n - 1,), (opened(n, bytes(50)),), {"nodes": 1})))
    monkeypatch.setattr(replay_module, "perf_counter", lambda: next(looks))
    monkeypatch.setattr(replay_module, "_SLICE", 10)
    seen = [0]

    async def tick() -> None:
        while True:
            seen.append(next(looks))
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    state, _ = await resumed(path)
    ticking.cancel()
    assert list(state.open) == [9_999]
    assert max(after - before for before, after in itertools.pairwise(seen)) < 20


SEARCH = """
import asyncio, os, sys
from pathlib import Path
from aiosearch.engine.journal import journal as module
from aiosearch.engine.journal.journal import Journal
from aiosearch.engine.journal.records import JournalHeader, JournalRecord, OpenSubtree

header = JournalHeader(
    "0.1.2", "zoo:Problem", b"p", "Problem(p=1)", "dfs", "queue", 7, "tuple[int, ...]"
)
path = Path(sys.argv[1])

def step(n):
    opened = (OpenSubtree(n, 0, 0.5, 3, bytes(1000), 2, 0.25),)
    return JournalRecord((n - 1,), opened, {"nodes": 1})
"""

CRASH = (
    SEARCH
    + """
async def main():
    module.COMPACT_BYTES = 50_000
    journal = await Journal.create(path, header, print, step(0))
    for n in range(1, 10**9):
        journal.write(step(n))
        await asyncio.sleep(0)
        if n % 1000 == 999:
            assert journal.statistics().trusted
            print(path.read_bytes().count(b"nodes"), flush=True)

asyncio.run(main())
"""
)

FULL = (
    SEARCH
    + """
import json, resource

async def main():
    warnings = []
    journal = await Journal.create(path, header, warnings.append)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    for n in range(500):  # 700 KB
        journal.write(step(n))
    while not warnings:
        await asyncio.sleep(0)
    end = path.read_bytes()[-1:].decode()
    if sys.argv[2] == "again":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        module.RETRY_SECONDS, journal._retry = 0, 0
        journal.write(step(500))
        while not journal.statistics().trusted:
            await asyncio.sleep(0)
        journal.write(step(501))
    else:  # one bundle too large for the room there is
        large = OpenSubtree(10**6, 0, 0.5, 3, bytes(300_000), 2, 0.25)
        journal.write(JournalRecord(opened=(large,)))
    await journal.close()
    print(json.dumps([warnings, end, journal.statistics().trusted]))

asyncio.run(main())
"""
)


@contextmanager
def running(script: str, *arguments: str, fault: str = "") -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "AIOSEARCH_FAULT": fault},
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def one_open(state: JournalState) -> int:
    """Checks that the state is that after some number of steps, and gives it."""
    steps = state.counts["nodes"]
    assert list(state.open) == [steps - 1]
    return steps


@pytest.mark.parametrize(
    "fault", ["journal.batch:1", "journal.batch:9", *(f"journal.rename:{n}" for n in (1, 2, 3, 4))]
)
async def test_a_crash_leaves_a_consistent_journal(tmp_path: Path, fault: str) -> None:
    """Killed in a batch, or just before or after a snapshot takes its place, the search resumes."""
    path = tmp_path / "j"
    with running(CRASH, str(path), fault=fault) as process:
        process.communicate(timeout=20)
    assert process.returncode == -signal.SIGKILL
    if fault.startswith("journal.rename"):
        assert path.with_name("j.tmp").exists() == (fault[-1] in "13")
    state, warnings = await resumed(path)
    if fault != "journal.batch:1":
        assert one_open(state) > 0
    assert fault.startswith("journal.batch") or not warnings
    assert os.listdir(tmp_path) == ["j"]


async def test_what_the_file_held_survives_a_kill(tmp_path: Path) -> None:
    """Killing the process group takes nothing that had reached the operating system."""
    with running(CRASH, str(tmp_path / "j")) as process:
        assert process.stdout is not None
        held = int(process.stdout.readline())
    state, _ = await resumed(tmp_path / "j")
    assert one_open(state) >= held > 0


async def test_a_full_disk_leaves_a_journal_that_resumes(tmp_path: Path) -> None:
    """The search is told once and goes on; the file keeps the whole records it had."""
    with running(FULL, str(tmp_path / "j"), "never") as process:
        output, _ = process.communicate(timeout=20)
    warnings, end, trusted = json.loads(output)
    assert len(warnings) == 1
    assert "cannot be written (File too large)" in warnings[0]
    assert (end, trusted) == ("\n", False)
    state, warnings = await resumed(tmp_path / "j")
    assert 0 < one_open(state) < 500
    assert warnings == []
    assert os.listdir(tmp_path) == ["j"]


async def test_when_there_is_room_again_the_journal_is_complete(tmp_path: Path) -> None:
    """A snapshot brings back what the full disk kept out, and later records follow it."""
    with running(FULL, str(tmp_path / "j"), "again") as process:
        output, _ = process.communicate(timeout=20)
    warnings, _, trusted = json.loads(output)
    assert [warning.endswith("is complete again") for warning in warnings] == [False, True]
    assert trusted
    state, _ = await resumed(tmp_path / "j")
    assert one_open(state) == 502


async def test_a_long_transaction_takes_effect_as_a_whole(tmp_path: Path) -> None:
    """A record of many lines, cut in any of them, leaves the state as it was before it."""
    path = tmp_path / "j"
    before = JournalRecord(opened=(opened(1),))
    long = JournalRecord(closed=(1,), opened=tuple(opened(n, b"x" * 9000) for n in range(2, 40)))
    pieces = [seal(HEADER), seal(before), *lines([long])]
    assert len(pieces) > 4
    for count in range(2, len(pieces) + 1):
        path.write_bytes(b"".join(pieces[:count]))
        state, whole = await replay(path)
        complete = count == len(pieces)
        assert set(state.open) == (set(range(2, 40)) if complete else {1})
        assert whole == len(b"".join(pieces if complete else pieces[:2]))
