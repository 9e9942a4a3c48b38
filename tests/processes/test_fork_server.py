"""Children from a nursery are as children that were started, and nothing is left of either."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from aiosearch.processes import fork_client
from aiosearch.processes.child import Child
from aiosearch.processes.fork_client import ForkServer, live_fork_servers
from aiosearch.processes.launch import ForkedChild
from aiosearch.testing import no_leaks
from aiosearch.testing.leaks import children

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="live_fork_servers need Linux")

BROOD = "wards"
SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(autouse=True)
def _own_nursery() -> Iterator[None]:
    """Each test has its own, and what it leaves is seen."""
    fork_client._thread_servers.failures.pop(BROOD, None)
    yield
    if found := fork_client._thread_servers.servers.pop(BROOD, None):
        found.end()
    fork_client._thread_servers.failures.pop(BROOD, None)


def its_nursery() -> ForkServer:
    return fork_client._thread_servers.servers[BROOD]


def forked(child: Child) -> bool:
    return isinstance(child._process, ForkedChild)


class Ward:
    """A child and what it says."""

    def __init__(self) -> None:
        self.child: Child
        self.heard: asyncio.Queue[Any] = asyncio.Queue()
        self.gone = asyncio.Event()

    async def begin(
        self,
        code: str,
        *words: str,
        files: tuple[int, ...] = (),
        brood: str = BROOD,
        module: str = "ward",
    ) -> Ward:
        def hear(payload: bytes) -> None:
            self.heard.put_nowait(json.loads(payload))

        self.child = await Child.spawn(module, hear, self.gone.set, files, (code, *words), brood)
        return self

    async def end(self) -> None:
        self.child.kill()
        await self.child.reap()


@asynccontextmanager
async def ward(code: str, *words: str, **options: Any) -> AsyncIterator[Ward]:
    made = await Ward().begin(code, *words, **options)
    try:
        yield made
    finally:
        await made.end()


async def said(code: str, *words: str, **options: Any) -> Any:
    """What a child says first."""
    async with ward(code, *words, **options) as one:
        return await one.heard.get()


WAIT = "say(1); import time; time.sleep(1000)"
FACTS = """
import gc, os, resource, signal, sys, threading
def target(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None
own = channel.fileno()
fds = sorted(int(fd) for fd in os.listdir("/proc/self/fd") if target(fd))
main = sys.modules["__main__"]
say({
    "argv": [sys.argv[0], *sys.argv[2:]], "main": main.__file__, "flags": repr(sys.flags),
    "path": sys.path, "environment": dict(os.environ), "folder": os.getcwd(),
    "files": {fd: target(fd) for fd in fds if fd != own}, "own": own in fds,
    "inheritable": {fd: os.get_inheritable(fd) for fd in fds if fd != own},
    "umask": os.umask(0), "nice": os.nice(0), "affinity": sorted(os.sched_getaffinity(0)),
    "limits": [resource.getrlimit(each) for each in range(16)],
    "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "signals": [repr(signal.getsignal(each)) for each in range(1, 32)],
    "parent": os.getppid(), "group": os.getpgrp(), "session": os.getsid(0),
    "threads": threading.active_count(), "collects": [gc.isenabled(), gc.get_threshold()],
    "command": open("/proc/self/cmdline").read().split("\\0")[:5],
    "oom": open("/proc/self/oom_score_adj").read(),
    "streams": [sys.stdout.fileno(), sys.stderr.fileno()],
    "buffering": [sys.stdout.write_through, sys.stderr.write_through],
})
"""


@contextmanager
def mask(number: signal.Signals) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def ignored(number: signal.Signals) -> Iterator[None]:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def limit(kind: int, soft: int) -> Iterator[None]:
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


@contextmanager
def variable(name: str, value: str | None) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if value is None:
            patch.delenv(name)
        else:
            patch.setenv(name, value)
        yield


@contextmanager
def folder(path: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        yield


@contextmanager
def output() -> Iterator[None]:
    """Another file under the number 2."""
    kept = os.dup(2)
    other = os.memfd_create("another")
    os.dup2(other, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(other)


@contextmanager
def affinity() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(
    "change",
    [
        nullcontext,
        lambda: variable("XDG_CACHE_HOME", "/elsewhere"),
        lambda: variable("XDG_CACHE_HOME", None),
        lambda: variable("AIOSEARCH_TEST", "half \udcff"),
        lambda: variable("PYTHONHASHSEED", "7"),
        lambda: folder("/usr"),
        lambda: umask(0o27),
        lambda: limit(resource.RLIMIT_NOFILE, 200),
        lambda: limit(resource.RLIMIT_CORE, 0),
        lambda: mask(signal.SIGUSR1),
        lambda: ignored(signal.SIGUSR2),
        lambda: ignored(signal.SIGHUP),
        output,
        affinity,
    ],
    ids=[
        "nothing", "late", "unset", "other", "hash", "folder", "umask", "files", "core", "blocked",
        "ignored", "hangup", "output", "affinity",
    ],
)  # fmt: skip
async def test_a_child_finds_what_one_that_was_started_finds(change: Callable[[], Any]) -> None:
    """Also what its host has changed since there is a nursery."""
    assert await said("say(1)") == 1
    read, write = os.pipe()
    with change():
        async with ward(FACTS, "a", "ü", files=(write,)) as one:
            assert forked(one.child)
            found = await one.heard.get()
        expected = await said(FACTS, "a", "ü", files=(write,), brood="")
    os.close(read)
    os.close(write)
    assert found == expected


async def test_a_change_at_home_is_seen_by_the_next_child_of_the_same_nursery(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    where = "import os; say([os.getcwd(), os.environ['XDG_CACHE_HOME']])"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        monkeypatch.setenv("XDG_CACHE_HOME", name)
        assert await said(where) == [str(tmp_path / name), name]
    assert its_nursery().forked == 2


async def test_a_child_is_its_hosts_own() -> None:
    """It is imported once, and waited for by the host."""
    code = "import os, threading; say([os.getpid(), os.getppid(), IMPORTED_BY])"
    pids = set()
    for _ in range(3):
        async with ward(code) as one:
            pid, parent, importer = await one.heard.get()
            assert (pid, parent) == (one.child.pid, os.getpid())
            assert importer == its_nursery().pid
            assert pid in children()
            pids.add(pid)
    assert len(pids) == 3
    assert not pids & set(children())


async def test_who_gives_up_at_any_turn_leaves_no_child_behind() -> None:
    """Also where the child has said who it is, and nobody has heard it yet."""
    await said("say(1)")
    for turns in range(16):
        async with no_leaks():
            beginning = asyncio.ensure_future(Ward().begin(WAIT))
            for _ in range(turns):
                await asyncio.sleep(0)
                time.sleep(0.01)  # noqa: ASYNC251 - meanwhile the child does what it can
            beginning.cancel()
            (found,) = await asyncio.gather(beginning, return_exceptions=True)
            if isinstance(found, Ward):
                await found.end()


async def test_files_are_found_under_the_numbers_that_they_have_at_home() -> None:
    """Whatever these numbers are, in a nursery, of files of its own."""
    pipes = [os.pipe() for _ in range(20)]
    numbers = [write for _, write in pipes]
    for at in (0, 1, 2):
        numbers[at] = fcntl.fcntl(pipes[at][1], fcntl.F_DUPFD, 100 * (at + 1))
    order = sorted(numbers, key=lambda number: number % 7)
    code = "import os; [os.write(int(word), word.encode()) for word in words]; say(1)"
    async with ward(code, *map(str, order), files=tuple(order)) as one:
        assert forked(one.child)
        await one.heard.get()
    for number, (read, _) in zip(numbers, pipes, strict=True):
        assert os.read(read, 100) == str(number).encode()
    for fd in {*numbers, *(fd for pipe in pipes for fd in pipe)}:
        os.close(fd)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('in words')", 1),
        ("raise ValueError('wrong')", 1),
        ("import os; os._exit(7)", 7),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import signal; signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()", -14),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
    ],
)
async def test_an_end_is_told_as_of_a_child_that_was_started(
    code: str, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    ends = []
    for brood in (BROOD, ""):
        async with ward(code, brood=brood) as one:
            assert forked(one.child) == bool(brood)
            await one.gone.wait()
            await one.child.reap()
            words = capfd.readouterr().err.splitlines()
            ends.append((one.child.returncode, one.child.death, words[-1:]))
    assert ends[0] == ends[1]
    assert ends[0][0] == status


async def test_what_is_registered_for_the_end_is_done_once() -> None:
    read, write = os.pipe()
    code = (
        "import atexit, os, sys; fd = int(words[0]); atexit.register(os.write, fd, b'end');"
        "sys.stdout = open(fd, 'w', closefd=False); print('said', flush=False)"
    )
    async with ward(code, str(write), files=(write,)) as one:
        assert forked(one.child)
        await one.gone.wait()
        await one.child.reap()
    os.close(write)
    assert os.read(read, 100) in (b"endsaid\n", b"said\nend")
    assert os.read(read, 100) == b""
    os.close(read)


@pytest.mark.parametrize("brood", [BROOD, ""])
async def test_a_child_that_cannot_be_imported_says_why(
    brood: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each says it once, in its own name; and one that can be imported is forked nevertheless."""
    for _ in range(2):
        async with ward("", module="ward_broken", brood=brood) as one:
            await one.gone.wait()
            await one.child.reap()
            assert one.child.death == "exit status 1"
        words = capfd.readouterr().err
        assert words.count("RuntimeError: what this needs is broken") == 1
        assert "nurse.py" not in words
    async with ward("say(1)", brood=brood) as one:
        assert forked(one.child) == bool(brood)


@pytest.mark.parametrize("module", ["ward_busy", "ward_holding"])
async def test_where_a_fork_would_not_be_safe_there_is_none(module: str) -> None:
    async with ward("say(1)", module=module) as one:
        assert not forked(one.child)
        assert await one.heard.get() == 1


def dead(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def until_dead(*pids: int) -> None:
    """Waits for processes that are not ours."""
    for pid in pids:
        with suppress(ProcessLookupError):
            fd = os.pidfd_open(pid)
            select.select([fd], [], [])
            os.close(fd)


HOST = """
import asyncio, json, os, sys
from aiosearch.processes.child import Child
from aiosearch.processes.fork_client import live_fork_servers
async def main():
    heard = asyncio.Queue()
    wards = [await Child.spawn("ward", heard.put_nowait, arguments=(code,), brood="wards")
             for code in CODES]
    for _ in wards:
        await heard.get()
    print(json.dumps([live_fork_servers()[0].pid, *(ward.pid for ward in wards)]), flush=True)
    await asyncio.sleep(SECONDS)
    for ward in wards:
        ward.kill()
        await ward.reap()
    return wards
"""


def host(script: str, codes: list[str], seconds: float = 1000) -> subprocess.Popen[bytes]:
    text = f"CODES, SECONDS = {codes!r}, {seconds}\n{HOST}\n{script}"
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path])},
    )


STOPPED = "say(1); import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"


def test_all_end_with_a_host_that_is_killed() -> None:
    """At once, by the kernel: one of them could not do it by itself."""
    with host("asyncio.run(main())", [WAIT, STOPPED]) as process:
        assert process.stdout is not None
        pids = json.loads(process.stdout.readline())
        process.kill()
        until_dead(*pids)
    assert len(pids) == 3


def test_nothing_is_left_of_a_host_that_ends() -> None:
    with host("asyncio.run(main())", [WAIT, WAIT], 0) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert all(map(dead, json.loads(out)))


def test_a_fork_of_a_host_has_a_nursery_of_its_own() -> None:
    """And leaves that of the host alone, also when it ends."""
    script = """
asyncio.run(main())
pid = os.fork()
asyncio.run(main())
if pid:
    os.waitpid(pid, 0)
    asyncio.run(main())
"""
    with host(script, [WAIT], 0) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    first = [json.loads(line)[0] for line in out.splitlines()]
    assert len(first) == 4
    assert sorted(map(first.count, set(first))) == [1, 3]


async def test_children_do_without_a_nursery_that_was_killed() -> None:
    """The next one has another."""
    async with ward("say(1); [say(2) for frame in iter(channel.receive, 0)]") as one:
        await one.heard.get()
        old = its_nursery().pid
        os.kill(old, signal.SIGKILL)
        os.waitid(os.P_PID, old, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
        one.child.send(b"are you there?")
        assert await one.heard.get() == 2
        async with ward("say(3)") as another:
            assert forked(another.child)
            assert await another.heard.get() == 3
        assert its_nursery().pid != old
        assert one.child.alive
    assert old not in children()


async def test_a_nursery_that_has_ended_is_nothing_left_behind() -> None:
    await said("say(1)")
    async with no_leaks():
        os.kill(its_nursery().pid, signal.SIGKILL)
        os.waitid(os.P_PID, its_nursery().pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222


async def test_a_nursery_that_dies_while_it_is_asked_is_done_without() -> None:
    await said("say(1)")
    async with no_leaks():
        os.kill(its_nursery().pid, signal.SIGSTOP)
        begun = asyncio.create_task(Ward().begin("say(2)"))
        await asyncio.sleep(0)
        its_nursery()._process.kill()
        one = await begun
        assert not forked(one.child)
        assert await one.heard.get() == 2
        await one.end()


async def test_a_nursery_that_hangs_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    await said("say(1)")
    frozen = its_nursery().pid
    os.kill(frozen, signal.SIGSTOP)
    monkeypatch.setattr(fork_client, "PATIENCE_SECONDS", 0.01)
    async with no_leaks(), ward("say(2)") as one:
        assert not forked(one.child)
        assert await one.heard.get() == 2
    assert frozen not in children()


async def test_nurseries_that_only_die_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_client, "MODULE", "ward_broken")
    for _ in range(fork_client.TRIES + 1):
        assert await said("say(1)") == 1
    assert BROOD not in fork_client._thread_servers.servers
    assert not [one for one in live_fork_servers() if not one.forked]


LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
Loop = Callable[[], asyncio.AbstractEventLoop]


@LOOPS
def test_a_spawn_that_is_cancelled_leaves_nothing(loop: Loop) -> None:
    """Wherever it was: before there is a child, and when there may be one already."""

    async def frozen() -> None:
        os.kill(its_nursery().pid, signal.SIGSTOP)
        begun = asyncio.create_task(Ward().begin(WAIT))
        await asyncio.sleep(0)
        begun.cancel()
        with pytest.raises(asyncio.CancelledError):
            await begun
        os.kill(its_nursery().pid, signal.SIGCONT)

    async def ordered() -> None:
        def order(*arguments: Any) -> bool:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            return send(*arguments)

        send = fork_client._order
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fork_client, "_order", order)
            begun = asyncio.create_task(Ward().begin(WAIT))
            with pytest.raises(asyncio.CancelledError):
                await begun

    async def main() -> None:
        await said("say(1)")
        first = its_nursery().pid
        async with no_leaks():
            for _ in range(3):
                await frozen()
                await ordered()
            assert await said("say(2)") == 2
        assert its_nursery().pid == first

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def test_a_child_that_is_late_after_a_cancelled_spawn_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the nursery does not get on, it is ended as well."""
    await said("say(1)")
    old = its_nursery().pid
    send = fork_client._order

    def order(*arguments: Any) -> bool:
        os.kill(old, signal.SIGSTOP)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return send(*arguments)

    monkeypatch.setattr(fork_client, "_order", order)
    monkeypatch.setattr(fork_client, "TAKE_BACK_SECONDS", 0.05)
    async with no_leaks():
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(Ward().begin(WAIT))
    assert old not in children()


@LOOPS
def test_many_at_once_leave_nothing(loop: Loop) -> None:
    async def main() -> None:
        await said("say(1)")
        async with no_leaks():
            assert await asyncio.gather(*(said("say(2)") for _ in range(20))) == [2] * 20
        assert its_nursery().forked == 21

    for _ in range(2):
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(main())
        fork_client._thread_servers.servers.pop(BROOD).end()


def test_each_thread_has_its_own_nursery() -> None:
    """It is gone when the thread is."""
    found: list[list[Any]] = []
    both = threading.Barrier(2)

    async def main() -> list[Any]:
        both.wait()
        answers = await asyncio.gather(*(said("import os; say(os.getppid())") for _ in range(5)))
        both.wait()
        return [its_nursery().pid, *answers]

    before = set(children())
    threads = [threading.Thread(target=lambda: found.append(asyncio.run(main()))) for _ in "12"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each[1:] for each in found] == [[os.getpid()] * 5] * 2
    assert found[0][0] != found[1][0]
    assert set(children()) <= before


async def test_where_there_are_no_files_left_the_host_hears_of_it() -> None:
    await said("say(1)")
    async with no_leaks():
        highest = max(map(int, os.listdir("/proc/self/fd")))
        kept = [os.open(os.devnull, os.O_RDONLY)]
        while kept[-1] < highest:
            kept.append(os.dup(kept[0]))
        words = os.strerror(errno.EMFILE)
        with limit(resource.RLIMIT_NOFILE, kept[-1] + 1), pytest.raises(OSError, match=words):
            await Ward().begin(WAIT)
        for fd in kept:
            os.close(fd)
    async with ward("say(1)") as one:
        assert forked(one.child)


async def test_a_nursery_ignores_what_is_its_hosts_business() -> None:
    await said("say(1)")
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(its_nursery().pid, number)
    await said("say(1)")
    assert its_nursery().forked == 2


async def test_an_idle_nursery_ends_and_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_client, "IDLE_SECONDS", 0.2)
    before = set(children())
    async with ward("say(1); [say(2) for frame in iter(channel.receive, 0)]") as one:
        await one.heard.get()
        while set(children()) - before != {one.child.pid}:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        one.child.send(b"are you there?")
        assert await one.heard.get() == 2
        assert await said("say(3)") == 3


async def test_no_two_children_draw_the_same() -> None:
    code = "import numpy, random; say([random.random(), numpy.random.random()])"
    drawn = [await said(code, module="ward_jax") for _ in range(2)]
    assert drawn[0][0] != drawn[1][0]
    assert drawn[0][1] != drawn[1][1]


COMPUTE = """
import os, numpy, jax
numpy.ones((600, 600)) @ numpy.ones((600, 600))
threads = len(os.listdir("/proc/self/task"))
some = jax.jit(lambda x: x @ x)(jax.numpy.ones((300, 300)))
say([threads, float(some.sum()), jax.config.jax_enable_x64, len(os.listdir("/proc/self/task"))])
"""


async def test_a_child_computes_as_one_that_was_started(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With as many threads, what its host has set for jax at the time, and without a warning."""
    for wide in ("0", "1"):
        monkeypatch.setenv("JAX_ENABLE_X64", wide)
        async with ward(COMPUTE, module="ward_jax") as one:
            assert forked(one.child)
            found = await one.heard.get()
        assert found == await said(COMPUTE, module="ward_jax", brood="")
        assert found[2] == bool(int(wide))
    assert capfd.readouterr().err == ""
