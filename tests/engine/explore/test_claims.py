from __future__ import annotations

import math
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiosearch.engine.explore.claims import (
    HOST,
    PART_BYTES,
    WINDOW,
    Claim,
    KeyChunks,
    LocalClaims,
    SharedClaims,
    key_digest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


KEYS = [key_digest(n) for n in range(300)]


@pytest.fixture
def table() -> Iterator[SharedClaims]:
    table = SharedClaims.create(1 << 10)
    yield table
    table.close()


def run(script: str, *arguments: str) -> str:
    """Runs a script that may fork, which this process, full of threads, must not."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("make", [LocalClaims, SharedClaims.create])
def test_a_key_is_new_once(make: type[LocalClaims]) -> None:
    """The first claim of a key is NEW and every later one DUPLICATE."""
    claims = make(1 << 10)
    assert {claims.claim(key) for key in KEYS} == {Claim.NEW}
    assert {claims.claim(key) for key in KEYS} == {Claim.DUPLICATE}
    claims.close()


@pytest.mark.parametrize("make", [LocalClaims, SharedClaims.create])
def test_a_better_bound_reopens(make: type[LocalClaims]) -> None:
    """A smaller bound reopens a key, an equal or larger one does not."""
    claims = make(1 << 10)
    said = [claims.claim(KEYS[0], bound) for bound in (3.0, 3.0, 4.0, 2.0, 2.5, -math.inf, 2.0)]
    assert [claim.name for claim in said] == [
        *("NEW", "DUPLICATE", "DUPLICATE", "REOPENED", "DUPLICATE", "REOPENED", "DUPLICATE")
    ]
    claims.close()


@pytest.mark.parametrize("make", [LocalClaims, SharedClaims.create])
def test_preloaded_keys_are_known(make: type[LocalClaims]) -> None:
    """What an earlier run explored is a duplicate, and nothing else is."""
    claims = make(1 << 10)
    claims.preload(b"".join(KEYS[:100]))
    assert {claims.claim(key) for key in KEYS[:100]} == {Claim.DUPLICATE}
    assert {claims.claim(key) for key in KEYS[100:]} == {Claim.NEW}
    claims.close()


def test_preloaded_keys_stay_when_workers_die(table: SharedClaims) -> None:
    """No worker's death voids what an earlier run explored."""
    table.preload(KEYS[0])
    table.release(1, 0)
    worker = SharedClaims.attach(table.path, 2)
    assert worker.claim(KEYS[0]) is Claim.DUPLICATE
    worker.close()


def test_a_full_local_table_says_so() -> None:
    """A full table still knows its keys, and asks to explore the others."""
    claims = LocalClaims(2)
    said = [claims.claim(key).name for key in (*KEYS[:3], KEYS[0], KEYS[2])]
    assert said == ["NEW", "NEW", "FULL", "DUPLICATE", "FULL"]


def test_a_full_shared_table_says_so() -> None:
    """A full table still knows its keys, and asks to explore the others."""
    table = SharedClaims.create(1)
    assert {table.claim(key) for key in KEYS[:WINDOW]} == {Claim.NEW}
    assert {table.claim(key) for key in KEYS[WINDOW:]} == {Claim.FULL}
    assert {table.claim(key) for key in KEYS[:WINDOW]} == {Claim.DUPLICATE}
    table.preload(KEYS[-1])
    table.close()


def test_a_dead_workers_uncommitted_claims_are_void(table: SharedClaims) -> None:
    """After `release`, what was claimed up to the committed report stays and the rest is free."""
    dead = SharedClaims.attach(table.path, 1)
    for dead.sequence in (1, 2, 3):
        dead.claim(KEYS[dead.sequence])
    other = SharedClaims.attach(table.path, 2)
    assert {other.claim(KEYS[n]) for n in (1, 2, 3)} == {Claim.DUPLICATE}
    table.release(1, committed=2)
    assert [other.claim(KEYS[n]).name for n in (1, 2, 3)] == ["DUPLICATE", "DUPLICATE", "NEW"]
    assert other.claim(KEYS[3]) is Claim.DUPLICATE
    dead.close()
    other.close()


def test_a_half_written_slot_is_harmless(table: SharedClaims) -> None:
    """A writer killed before its stamp leaves its key claimable, and the others untouched."""
    words = memoryview(table._map)[4 * HOST + 4 :].cast("Q")
    home = int.from_bytes(KEYS[0][:8], sys.byteorder) % (1 << 10) * 4
    words[home] = int.from_bytes(KEYS[0][:8], sys.byteorder)
    assert table.claim(KEYS[0]) is Claim.NEW  # half a key: nobody's slot
    home = int.from_bytes(KEYS[1][:8], sys.byteorder) % (1 << 10) * 4
    words[home] = int.from_bytes(KEYS[1][:8], sys.byteorder)
    words[home + 1] = int.from_bytes(KEYS[1][8:], sys.byteorder)
    assert table.claim(KEYS[1]) is Claim.NEW  # a whole key without a stamp
    assert {table.claim(key) for key in KEYS[:2]} == {Claim.DUPLICATE}
    words.release()


@pytest.mark.parametrize("owner", [0, HOST])
def test_reserved_owners_are_refused(table: SharedClaims, owner: int) -> None:
    """A worker is never nobody, nor the host."""
    with pytest.raises(ValueError, match=f"owner {owner}"):
        SharedClaims.attach(table.path, owner)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.integers(0, 2), st.integers(0, 30), st.integers(0, 3)),
        st.tuples(st.just("report"), st.integers(0, 2), st.just(0), st.just(0)),
        st.tuples(st.just("die"), st.integers(0, 2), st.integers(0, 1), st.just(0)),
    ),
    max_size=150,
)


@settings(max_examples=100)
@given(STEPS)
def test_the_shared_table_agrees_with_a_model(steps: list[tuple[str, int, int, int]]) -> None:
    """Whatever workers claim, report and die, the table says what a dictionary would."""
    table = SharedClaims.create(4)
    workers = [SharedClaims.attach(table.path, owner) for owner in (1, 2, 3)]
    owners, next_owner = [1, 2, 3], 4
    model: dict[int, tuple[int, int, int]] = {}  # key: (owner, sequence, bound)
    committed: dict[int, int] = {}  # of dead owners
    for step, which, key, bound in steps:
        worker, owner = workers[which], owners[which]
        if step == "report":
            worker.sequence += 1
        elif step == "die":
            committed[owner] = worker.sequence - key
            table.release(owner, committed[owner])
            worker.close()
            workers[which] = SharedClaims.attach(table.path, next_owner)
            owners[which] = next_owner
            next_owner += 1
        else:
            known = model.get(key)
            if known is None or known[1] > committed.get(known[0], math.inf):
                expected = Claim.NEW
            else:
                expected = Claim.DUPLICATE if bound >= known[2] else Claim.REOPENED
            if expected is not Claim.DUPLICATE:
                model[key] = (owner, worker.sequence, bound)
            assert worker.claim(KEYS[key], bound) is expected
    for worker in (*workers, table):
        worker.close()


HAMMER = """
import os, random, sys
from aiosearch.engine.explore.claims import Claim, SharedClaims, key_digest

mode, tables, capacity, count = sys.argv[1], *map(int, sys.argv[2:])

def work(owner):
    chance = random.Random(owner)
    lines = []
    views = [SharedClaims.attach(table.path, owner) for table in tables]
    os.read(start, 1)
    for which, claims in enumerate(views):
        order = enumerate(keys) if owner % 2 or mode == "plain" else reversed([*enumerate(keys)])
        for n, key in order:
            bound = float(chance.randrange(1000)) if mode == "bounded" else -float("inf")
            said = claims.claim(key, bound)
            lines.append(f"{which * count + n} {said.name} {bound}\\n".encode().ljust(32))
    for at in range(0, len(lines), 128):
        os.write(results, b"".join(lines[at : at + 128]))  # whole, and not mixed with others

keys = [key_digest(n) for n in range(count)]
tables = [SharedClaims.create(capacity) for _ in range(tables)]
start, go = os.pipe()
output, results = os.pipe()
for owner in (1, 2, 3, 4):
    if not os.fork():
        work(owner)
        os._exit(0)
os.write(go, b"....")
os.close(results)
lines = [line.split() for line in open(output) if line.strip()]
for _ in range(4):
    assert os.wait()[1] == 0
assert len(lines) == 4 * len(tables) * count
new = sorted(int(n) for n, said, _ in lines if said == "NEW")
assert not any(said == "FULL" for _, said, _ in lines)
assert new == list(range(len(tables) * count)), "every key is new exactly once"
if mode == "bounded":
    low, explored = {}, {}
    for n, said, bound in lines:
        low[int(n)] = min(float(bound), low.get(int(n), float("inf")))
        if said != "DUPLICATE":
            explored[int(n)] = min(float(bound), explored.get(int(n), float("inf")))
    assert explored == low, "the best bound was explored"
    for n, bound in low.items():
        table, key = tables[n // count], keys[n % count]
        assert table.claim(key, bound) is Claim.DUPLICATE
        assert table.claim(key, bound - 1) is Claim.REOPENED, "the smallest bound is stored"
"""


@pytest.mark.parametrize("mode", ["plain", "opposed", "bounded"])
@pytest.mark.parametrize("size", [("1", "60000", "20000"), ("200", "40", "100")], ids=str)
def test_processes_share_the_table(mode: str, size: tuple[str, ...]) -> None:
    """Of four processes that claim the same keys, one gets each; the smallest bound remains."""
    run(HAMMER, mode, *size)


KILL = """
import os, random, select, signal
from aiosearch.engine.explore.claims import Claim, SharedClaims, key_digest

KEYS = [key_digest(n) for n in range(60_000)]

def work(owner, pipe):
    claims = SharedClaims.attach(table.path, owner)
    chance = random.Random(owner)
    while True:
        new = []
        for _ in range(60):
            n = chance.randrange(len(KEYS))
            if claims.claim(KEYS[n]) is Claim.NEW:
                new.append(n)
        os.write(pipe, f"{claims.sequence}:{','.join(map(str, new))}\\n".encode())
        claims.sequence += 1

class Worker:
    def __init__(self, owner):
        self.owner = owner
        self.pipe, theirs = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self.pipe)
            work(owner, theirs)
        os.close(theirs)

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        reports = open(self.pipe).read().splitlines()
        committed = 0
        for report in reports:
            sequence, _, new = report.partition(":")
            committed = int(sequence)
            for n in filter(None, new.split(",")):
                assert int(n) not in explored, "committed twice"
                explored.add(int(n))
        table.release(self.owner, committed)

chance = random.Random(7)
table = SharedClaims.create(100_000)
explored = set()
workers = [Worker(owner) for owner in range(1, 4)]
for owner in range(4, 64):
    victim = workers.pop(0)
    select.select([victim.pipe], [], [])  # it is at work
    for _ in range(chance.randrange(20000)):  # any moment
        pass
    victim.end()
    workers.append(Worker(owner))
for worker in workers:
    worker.end()
host = SharedClaims.attach(table.path, 64)
for n, key in enumerate(KEYS):
    assert (host.claim(key) is Claim.NEW) == (n not in explored), n
print(len(explored))
"""


def test_killed_workers_lose_only_what_they_had_not_reported() -> None:
    """After many kills no key is explored twice, and none of the dead's open ones is taken."""
    assert int(run(KILL)) > 0


def test_a_table_that_is_gone_is_not_taken_for_the_next_one() -> None:
    """Its descriptor may stand for another one by now."""
    table = SharedClaims.create(16)
    table.close()
    following = SharedClaims.create(16)
    with pytest.raises(FileNotFoundError):
        SharedClaims.attach(table.path, 1)
    following.close()


def test_closing_leaves_no_descriptor() -> None:
    """A table and its views give everything back, also when closed twice."""
    before = os.listdir("/proc/self/fd")
    table = SharedClaims.create(16)
    worker = SharedClaims.attach(table.path, 1)
    for claims in (worker, table, worker, table):
        claims.close()
    assert os.listdir("/proc/self/fd") == before


def test_digests_tell_keys_apart() -> None:
    """Different keys have different digests, whatever their type, and large integers have one."""
    keys: list[bytes | str | int | tuple[object, ...]]
    keys = [b"", b"1", "1", 1, -1, 255, 256, 2**200, (1,), (1, "a"), (1, b"a"), ((1,), "a")]
    assert len({key_digest(key) for key in keys}) == len(keys)
    assert {len(key_digest(key)) for key in keys} == {16}


def test_digests_are_the_same_in_every_process() -> None:
    """Sets inside a key come in any order, and have one digest all the same."""
    script = """
    from aiosearch.engine.explore.claims import key_digest
    print(key_digest((1, frozenset("abcdef"), {"b": 1, "a": 2})).hex())
    """
    assert len({run(script) for _ in range(3)}) == 1


def test_keys_come_out_in_parts_that_are_not_too_large() -> None:
    """All of them, in order, however they were put in; and beyond the last part there is none."""
    known = KeyChunks()
    pieces = [bytes([number % 256]) * 16 * (number % 128 + 1) for number in range(300)]
    for piece in pieces:
        known.add(piece)
    parts = []
    while part := known.part(len(parts)):
        parts.append(part)
    assert b"".join(parts) == b"".join(pieces)
    assert max(map(len, parts)) <= PART_BYTES
    assert len(parts) <= 2 * sum(map(len, pieces)) / PART_BYTES


def test_without_keys_there_is_no_part() -> None:
    assert KeyChunks().part(0) == b""
