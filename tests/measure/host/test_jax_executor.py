"""The executor of a real device, in what the conformance suite does not ask."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import msgspec
import numpy as np
import pytest
import pytest_asyncio

from aiosearch.measure import (
    Allowance,
    ArrayType,
    Candidate,
    Cause,
    Compiled,
    Draw,
    ExecutorError,
    Failure,
    JaxExecutor,
    Way,
)
from aiosearch.processes import patience
from aiosearch.testing import no_leaks

TIMED = (Way.HOT, Way.COLD, Way.LOOPED, Way.QUEUED, Way.ALTERNATED)
"""How an executor can time candidates, in the order in which they are told."""
ALLOWANCE = Allowance(compile_seconds=20, run_seconds=5, memory_mb=4096)
FOR_EVER = 1_000_000
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
shared = pytest.mark.asyncio(loop_scope="module")
"""For tests that do with an executor of the module."""


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[JaxExecutor]:
    """One with one compile worker that leaves nothing behind."""
    async with no_leaks(), JaxExecutor(allowance=ALLOWANCE, compilers=1, **options) as executor:
        yield executor


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor() -> AsyncIterator[JaxExecutor]:
    """One for all tests that leave it as it was: its processes take seconds to start."""
    async with JaxExecutor(allowance=ALLOWANCE, compilers=1) as executor:
        yield executor


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def timing() -> AsyncIterator[JaxExecutor]:
    """One that times in every way."""
    async with JaxExecutor(allowance=ALLOWANCE, compilers=1, ways=TIMED) as executor:
        yield executor


async def until(happened: Callable[[], bool]) -> None:
    """Waits for what nothing tells of."""
    while not happened():  # noqa: ASYNC110  # the kernel has no event for it
        await asyncio.sleep(0)


def candidate(
    body: str,
    *inputs: ArrayType,
    x64: bool = False,
    constants: Mapping[int, np.ndarray[Any, Any]] | None = None,
) -> Candidate:
    names = ", ".join("xyz"[: len(inputs)])
    source = f"import jax\nimport jax.numpy as jnp\ndef f({names}):\n    return {body}\n"
    return Candidate(body, source, "f", inputs, constants or {}, x64)


async def compiled(executor: JaxExecutor, *arguments: Any, **options: Any) -> Compiled:
    found = await executor.compile(candidate(*arguments, **options))
    assert isinstance(found, Compiled), str(found)
    return found


def outputs(found: tuple[Any, ...] | Failure) -> tuple[Any, ...]:
    assert not isinstance(found, Failure), str(found)
    return found


@shared
async def test_types_and_constants(executor: JaxExecutor) -> None:
    """Every element type goes in and out; half types come out wide; constants stay as given."""
    square = ArrayType("float32", (8, 8))
    for dtype, wide in (
        ("float32", "float32"),
        ("bfloat16", "float32"),
        ("float16", "float32"),
        ("float64", "float64"),
        ("int32", "int32"),
        ("uint8", "uint8"),
        ("bool", "bool"),
        ("complex64", "complex64"),
    ):
        same = await compiled(executor, "x", ArrayType(dtype, (3, 2)), x64=dtype == "float64")
        (drawn,) = outputs(await executor.run(same, 0))
        assert (drawn.dtype.name, drawn.shape) == (wide, (3, 2))
        (again,) = outputs(await executor.run(same, [drawn]))
        assert np.array_equal(again, drawn)
    tree = await compiled(executor, "{'b': x[0], 'a': (x, x.sum())}", square)
    assert [each.shape for each in outputs(await executor.run(tree, 0))] == [(8, 8), (), (8,)]
    weight = np.arange(64, dtype=np.float32).reshape(8, 8)
    kept = await compiled(executor, "y + 0 * x", square, square, constants={1: weight})
    assert np.array_equal(outputs(await executor.run(kept, 5))[0], weight)
    race = await executor.race([kept, kept], rounds=2)
    assert [lap.failure for lap in race.laps] == [None, None]
    wrong = await executor.run(kept, [weight])
    assert isinstance(wrong, Failure)
    assert wrong.cause is Cause.RAISED


@shared
async def test_what_runs_between_others_is_loaded_once(
    executor: JaxExecutor, tmp_path: Path
) -> None:
    """A program that runs before each of others stays loaded, one that ran long ago does not."""
    loads = tmp_path / "loads"
    body = candidate("x", ArrayType("float32", (8,)))
    noted = replace(body, source=f"open({str(loads)!r}, 'a').write('.')\n{body.source}")
    between = await executor.compile(noted)
    assert isinstance(between, Compiled)
    loads.unlink()  # where it was compiled it was read too
    for number in range(4):
        outputs(await executor.run(between, 0))
        other = await compiled(executor, f"x + {number}", ArrayType("float32", (8,)))
        outputs(await executor.run(other, 0))
    assert loads.read_text() == "."
    for number in range(4):
        other = await compiled(executor, f"x - {number}", ArrayType("float32", (8,)))
        outputs(await executor.run(other, 0))
    outputs(await executor.run(between, 0))
    assert loads.read_text() == ".."


@shared
async def test_ways_of_timing(timing: JaxExecutor) -> None:
    """Inside a loop a tiny run costs less than a call; inputs that are too small are not cold."""
    tiny = await compiled(timing, "x + 1", ArrayType("float32", (8,)))
    race = await timing.race([tiny], rounds=9)
    assert race.ways == (Way.HOT, Way.LOOPED, Way.QUEUED, Way.ALTERNATED)
    (lap,) = race.laps
    assert lap.samples[Way.LOOPED].median() < lap.samples[Way.HOT].median()
    large = await compiled(timing, "x.sum()", ArrayType("float32", (1 << 20,)))
    assert (await timing.race([large], rounds=2)).ways == TIMED


@shared
async def test_a_loop_runs_as_often_as_it_says(timing: JaxExecutor) -> None:
    """Nothing is left out of a looped run: it takes about as long as a call that is long."""
    long = await compiled(timing, "jnp.sin(x @ x)", ArrayType("float32", (512, 512)))
    (lap,) = (await timing.race([long], rounds=9)).laps
    ratio = lap.samples[Way.LOOPED].median() / lap.samples[Way.HOT].median()
    assert 0.2 < ratio < 5


async def test_processes_that_die_of_something_else() -> None:
    """One that is killed while it is idle is replaced; who kills his own is named, and how."""
    small = ArrayType("float32", (8,))
    async with opened() as executor:
        for pid in executor.pids:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: not executor.pids)
        short = await compiled(executor, "x + 1", small)
        assert len(outputs(await executor.run(short, 0))) == 1
        assert executor.restarts == 2
        ended = "__import__('os').kill(__import__('os').getpid(), 11)"
        deadly = await compiled(executor, f"jax.pure_callback(lambda _: {ended}, x, x)", small)
        found = await executor.race([short, deadly], rounds=3)
        failures = [lap.failure for lap in found.laps if lap.failure is not None]
        assert [(one.name, one.cause) for one in failures] == [(deadly.name, Cause.CRASHED)]
        assert failures[0].message.startswith("signal 11")
        assert found.rounds == 3


async def test_whoever_kills_the_device_between_rounds_is_nobody_in_the_race() -> None:
    """The process is replaced, and the race goes on with all of its contenders."""
    async with no_leaks():
        killed: list[int] = []

        def kill() -> list[int]:
            killed.append(executor.pids[0])
            os.kill(killed[-1], signal.SIGKILL)
            return []

        executor = JaxExecutor(allowance=ALLOWANCE, compilers=1, bystanders=kill)
        async with executor:
            short = await compiled(executor, "x + 1", ArrayType("float32", (8,)))
            race = await executor.race([short, short], rounds=7)
            assert [lap.failure for lap in race.laps] == [None, None]
            assert race.rounds == 7
            again = await executor.race([short], rounds=2)
            assert (again.laps[0].failure, again.rounds) == (None, 2)
            assert len(set(killed)) == executor.restarts == 2


def killing(
    marks: Path, times: int, call: str = "jax.pure_callback(once, x, x)", number: int = 9
) -> Candidate:
    """One whose process is killed the first `times` times that it comes to its call.

    Or is sent another signal.
    """
    source = (
        "import os, pathlib\n"
        "import jax\n"
        f"marks = pathlib.Path({str(marks)!r})\n"
        "def once(z):\n"
        f"    if len(os.listdir(marks)) < {times}:\n"
        "        (marks / str(os.getpid())).touch()\n"
        f"        os.kill(os.getpid(), {number})\n"
        "    return z\n"
        f"def f(x):\n    return {call} + 1\n"
    )
    return Candidate("killing", source, "f", (ArrayType("float32", (8,)),))


def gave_up(found: object) -> None:
    """Asserts that something failed for good, and says so."""
    assert isinstance(found, Failure)
    assert found.cause is Cause.MEMORY
    assert found.message.startswith("in both of two tries, it was killed")


@shared
async def test_whose_process_is_killed_has_another_try(
    executor: JaxExecutor, tmp_path: Path
) -> None:
    """A run, a compilation and a race are as good as any when one process of theirs is killed."""
    assert isinstance(await executor.compile(killing(made(tmp_path / "c"), 1, "once(x)")), Compiled)
    runs = await executor.compile(killing(made(tmp_path / "r"), 1))
    assert isinstance(runs, Compiled)
    assert len(outputs(await executor.run(runs, 0))) == 1
    races = await executor.compile(killing(made(tmp_path / "l"), 1))
    assert isinstance(races, Compiled)
    race = await executor.race([races, runs], rounds=6)
    assert [lap.failure for lap in race.laps] == [None, None]
    assert race.rounds == 6


@shared
async def test_who_has_two_processes_killed_is_out(executor: JaxExecutor, tmp_path: Path) -> None:
    """It is said that there were two tries, and there is no third; the others' rounds are whole."""
    gave_up(await executor.compile(killing(made(tmp_path / "c"), 9, "once(x)")))
    deadly = await executor.compile(killing(made(tmp_path / "r"), 9))
    assert isinstance(deadly, Compiled)
    gave_up(await executor.run(deadly, 0))
    short = await compiled(executor, "x + 1", ArrayType("float32", (8,)))
    race = await executor.race([short, deadly], rounds=6)
    gave_up(race.laps[1].failure)
    assert (race.laps[0].failure, race.rounds) == (None, 6)
    assert [len(os.listdir(tmp_path / one)) for one in "cr"] == [2, 4]


@linux
@shared
async def test_whose_process_is_stopped_has_another_try(
    executor: JaxExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not waited for until it goes on, which may be never; a second time, it is out."""
    monkeypatch.setattr(patience, "BEAT", 0.05)
    monkeypatch.setattr(patience, "STOPPED_SECONDS", 0.1)
    stop = signal.SIGSTOP.value
    once = killing(made(tmp_path / "c"), 1, "once(x)", stop)
    assert isinstance(await executor.compile(once), Compiled)
    short = await compiled(executor, "x + 1", ArrayType("float32", (8,)))
    runners = [short]
    for times in (1, 9):
        one = await executor.compile(killing(made(tmp_path / f"r{times}"), times, number=stop))
        assert isinstance(one, Compiled)
        runners.append(one)
    race = await executor.race(runners, rounds=6)
    first, second, third = (lap.failure for lap in race.laps)
    assert (first, second, race.rounds) == (None, None, 6)
    assert third is not None
    assert third.cause is Cause.HUNG
    assert third.message == "in both of two tries, it was stopped, and did not go on"


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def test_a_constant_that_is_too_large_is_so_every_time() -> None:
    """What could not be kept is not taken for kept."""
    large = ArrayType("float32", (1 << 25,))
    zeros = np.zeros(large.shape, np.float32)
    allowance = Allowance(compile_seconds=20, run_seconds=5, memory_mb=64)
    async with no_leaks(), JaxExecutor(allowance=allowance, compilers=1) as executor:
        total = await compiled(executor, "x.sum()", large, constants={0: zeros})
        found = [await executor.run(total, 0) for _ in range(2)]
    assert [one.cause for one in found if isinstance(one, Failure)] == [Cause.MEMORY] * 2


@shared
async def test_whoever_gives_up_waits_for_what_is_being_written(executor: JaxExecutor) -> None:
    """Nobody else gets the letterbox while a thread still writes to it."""
    begun, go = threading.Event(), threading.Event()

    class Slow(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            begun.set()
            go.wait()
            return super().__iter__()

    same = await compiled(executor, "x", ArrayType("float32", (2,)))
    run = asyncio.ensure_future(executor.run(same, Slow([np.ones(2, np.float32)])))
    await until(begun.is_set)
    for _ in range(2):
        run.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
    left = run.done()
    go.set()
    assert not left
    await asyncio.gather(run, return_exceptions=True)
    assert run.cancelled()
    (found,) = outputs(await executor.run(same, [np.zeros(2, np.float32)]))
    assert not found.any()


@linux
async def test_others_stand_still_during_a_race() -> None:
    """Compile workers and bystanders are stopped while a CPU is timed on, and go on after it."""
    sleeper = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        async with opened(bystanders=lambda: [sleeper.pid]) as executor:
            tiny = await compiled(executor, "x + 1", ArrayType("float32", (8,)))
            others = [sleeper.pid, executor.pids[1]]
            race = asyncio.ensure_future(executor.race([tiny], rounds=FOR_EVER))
            await until(lambda: {state(pid) for pid in others} == {"T"})
            race.cancel()
            await asyncio.gather(race, return_exceptions=True)
            await until(lambda: "T" not in {state(pid) for pid in others})
            await compiled(executor, "x + 2", ArrayType("float32", (8,)))
    finally:
        sleeper.kill()
        await sleeper.wait()


async def test_an_absent_device_is_a_sentence() -> None:
    """A platform that jax does not find is named, and nothing is left of the attempt."""
    with pytest.raises(ExecutorError, match=r"no device nowhere: .*nowhere"):
        async with no_leaks(), JaxExecutor("nowhere"):
            pass


@pytest.mark.skipif(jax.default_backend() == "gpu", reason="the one in its place finds a GPU")
async def test_a_device_that_is_lost_is_a_sentence_too() -> None:
    """Its process has died, and the one in its place finds none, as after an error of a GPU."""
    async with opened() as executor:
        short = await compiled(executor, "x + 1", ArrayType("float32", (8,)))
        settings = executor._device._settings
        executor._device._settings = msgspec.structs.replace(settings, platform="cuda")
        lost = executor.pids[0]
        os.kill(lost, signal.SIGKILL)
        await until(lambda: lost not in executor.pids)
        with pytest.raises(ExecutorError, match=r"no device cuda: .*it was lost") as raised:
            await executor.run(short, 0)
    assert str(raised.value).count("it was lost while it was used") == 1


async def test_cancelled_while_it_opens() -> None:
    """Whoever gives up at any moment of the opening leaves nothing behind."""
    for turns in (1, 3, 10, 100, 1000):
        async with no_leaks():
            opening = asyncio.ensure_future(JaxExecutor(compilers=1).__aenter__())
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)


async def test_opened_once() -> None:
    """An executor serves from its opening to its closing, and one time only."""
    executor = JaxExecutor(allowance=ALLOWANCE, compilers=1)
    await executor.close()
    with pytest.raises(ExecutorError, match="not open"):
        await executor.compile(candidate("x", ArrayType("float32", ())))
    async with executor:
        pass
    with pytest.raises(ExecutorError, match="opened once"):
        await executor.__aenter__()


HOST = """
import asyncio
from aiosearch.measure import JaxExecutor

async def main():
    async with JaxExecutor(compilers=1) as executor:
        print(*executor.pids, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@linux
def test_nobody_outlives_the_host() -> None:
    """When the host is killed, so are the processes that it started."""
    with subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        pids = [int(word) for word in host.stdout.readline().split()]
        host.kill()
    assert len(pids) == 2
    while any(state(pid) not in ("", "Z") for pid in pids):
        time.sleep(0.001)


def state(pid: int) -> str:
    """The letter that /proc has for what a process does; nothing when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


@shared
async def test_inputs_are_drawn_from_what_the_candidate_says(executor: JaxExecutor) -> None:
    """In its runs by seed, and so in its races."""
    types = ArrayType("bfloat16", (64, 64)), ArrayType("int32", (64,))
    draws = {0: Draw(3.0, 4.0), 1: Draw(0, 5)}
    source = "def f(x, y):\n    return x, y\n"
    compiled = await executor.compile(Candidate("both", source, "f", types, draws=draws))
    assert isinstance(compiled, Compiled)
    found = await executor.run(compiled, 0)
    assert not isinstance(found, Failure)
    assert 3 <= found[0].min() < found[0].max() <= 4
    assert set(np.unique(found[1])) == set(range(5))


@shared
async def test_a_candidate_is_compiled_under_its_settings(executor: JaxExecutor) -> None:
    """What these do to a product cannot be seen on a CPU; a source can read them."""
    source = (
        "import jax\n"
        "def f(x):\n"
        "    assert jax.config.jax_default_matmul_precision == 'highest'\n"
        "    return x + jax.numpy.zeros((), 'int32')\n"
    )
    usual = Candidate("one", source, "f", (ArrayType("float32", ()),))
    precise = replace(usual, precision="highest")
    strict = replace(precise, promotion="strict")
    found = [await executor.compile(each) for each in (precise, strict, usual)]
    assert [isinstance(one, Compiled) for one in found] == [True, False, False]
    assert isinstance(found[1], Failure)
    assert "TypePromotionError" in found[1].message


DEFINITE = "x @ x.T + 8 * jnp.eye(8)"
LAPACK = {
    "cholesky": f"jnp.linalg.cholesky({DEFINITE})",
    "determinant": "jnp.linalg.slogdet(x)",
    "eigenvalues": "jnp.linalg.eigvals(x)",
    "hessenberg": "jax.scipy.linalg.hessenberg(x)",
    "hermitian": f"jnp.linalg.eigvalsh({DEFINITE} + 1j * (x - x.T))",
    "inverse": "jnp.linalg.inv(x)",
    "least squares": "jnp.linalg.lstsq(x, x[0])[0]",
    "lu": "jax.scipy.linalg.lu(x)",
    "pivoted": "jax.scipy.linalg.qr(x, pivoting=True)",
    "qr": "jnp.linalg.qr(x)",
    "schur": "jax.scipy.linalg.schur(x)",
    "solve": "jnp.linalg.solve(x, x.T)",
    "svd": "jnp.linalg.svd(x)",
    "symmetric": f"jnp.linalg.eigh({DEFINITE})",
    "triangular": "jax.scipy.linalg.solve_triangular(x + 8 * jnp.eye(8), x)",
    "tridiagonal": f"jax.lax.linalg.tridiagonal({DEFINITE})",
    "tridiagonal solve": "jax.lax.linalg.tridiagonal_solve(x[0], 8 + x[1], x[2], x)",
    "wide": "jnp.linalg.inv(x.astype('float64'))",
}


@shared
@pytest.mark.parametrize("what", LAPACK)
async def test_what_calls_lapack_runs_in_a_process_that_compiled_none(
    executor: JaxExecutor, what: str
) -> None:
    square, wide = ArrayType("float32", (8, 8)), what == "wide"
    made = await compiled(executor, LAPACK[what], square, x64=wide)
    assert made.executable, "it is not compiled again where it runs"
    (x,) = outputs(await executor.run(await compiled(executor, "x", square), 0))
    before, device = executor.restarts, executor.pids[0]
    os.kill(device, signal.SIGKILL)
    await until(lambda: device not in executor.pids)
    found = outputs(await executor.run(made, [x]))
    assert executor.restarts == before + 1
    scope: dict[str, Any] = {}
    exec(made.candidate.source, scope)
    with jax.enable_x64(wide):
        wanted = jax.tree.leaves(jax.jit(scope["f"])(x))
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
