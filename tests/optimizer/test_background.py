"""Functions that are optimized in the background while they are called."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from answers import Remembering
from logged_optimization import TWO_PASSES, FastUnlessWritten

from aiosearch.measure import MockExecutor
from aiosearch.optimizer import background
from aiosearch.optimizer.background import BackgroundSearch, BackgroundSearches
from aiosearch.optimizer.decorator import KINDS_PER_BUCKET, optimized
from aiosearch.optimizer.errors import OptimizeError
from aiosearch.optimizer.outcomes.results import Results

A = jnp.linspace(-1.0, 2.0, 12).reshape(3, 4)
PATIENCE = 60.0


class Held(Remembering):
    """A store that gives no answer before `go_on` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def find(self, key: Any) -> Any:
        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        return super().find(key)


@pytest.fixture(autouse=True)
def _on_two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "usable_cores", lambda: 2)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    store = Held(tmp_path / "results.sqlite")
    yield store
    store.go_on.set()


@pytest.fixture
def store(tmp_path: Path) -> Remembering:
    return Remembering(tmp_path / "results.sqlite")


def test_calls_run_the_original_until_what_was_found_takes_over(held: Held) -> None:
    traces: list[Any] = []

    @optimized(results=held, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        traces.append(x)
        return jnp.sum(x * 2)

    for _ in range(3):
        assert f(A) == jnp.sum(A * 2)
    assert held.begun.wait(PATIENCE)
    assert not f.settle(0)
    assert f.found == ()
    calls = len(traces)
    held.go_on.set()
    assert f.settle(PATIENCE)
    assert len(f.found) == 1
    warm = len(traces)
    for number in range(3):
        assert f(A + number) == jnp.sum((A + number) * 2)
    assert calls == 1 + 3, "one trace and three calls"
    assert len(traces) == warm, "calls take what was compiled in the background"


def test_the_best_so_far_takes_over_while_the_search_goes_on(tmp_path: Path) -> None:
    """What is faster after all takes its place."""
    executor = MockExecutor(FastUnlessWritten())
    asyncio.run(executor.__aenter__())
    found: list[tuple[Any, ...]] = []

    def tell(text: str) -> None:
        if text.endswith("rewriting"):
            found.append(f.found)

    with Results.open(tmp_path / "results.sqlite") as results:

        @optimized(
            results=results, target="cpu", kernels=False, effort=TWO_PASSES, executor=executor,
            tell=tell,
        )  # fmt: skip
        def f(a: jax.Array, b: jax.Array) -> jax.Array:
            return jnp.trace(a @ b)

        square = jnp.linspace(-1.0, 2.0, 64).reshape(8, 8)
        f(square, square)
        assert f.settle(PATIENCE)
        assert [len(before) for before in found] == [0, 1]
        (last,) = f.found
        assert last is not found[1][0]
        assert f(square, square) == pytest.approx(float(f.original(square, square)), rel=1e-5)


async def test_in_an_event_loop_nothing_waits_and_nothing_is_said(held: Held) -> None:
    @optimized(results=held, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(A).shape == A.shape
    held.go_on.set()
    assert f.settle(PATIENCE)
    assert len(f.found) == 1


def test_threads_that_make_the_same_call_begin_one_search(held: Held) -> None:
    @optimized(results=held, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    with ThreadPoolExecutor(8) as pool:
        assert {float(result) for result in pool.map(f, [A] * 32)} == {float(jnp.sum(A * 2))}
    held.go_on.set()
    assert f.settle(PATIENCE)
    assert len(held.asked) == len(f.found) == 1


def test_inside_a_trace_it_is_the_original(store: Remembering) -> None:
    @optimized(results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x**3)

    assert jax.grad(f)(A).tolist() == jax.grad(f.original)(A).tolist()
    assert jax.vmap(f)(A).shape == (3,)
    assert jax.jit(f)(A) == pytest.approx(float(f.original(A)))
    assert f.settle(0)
    assert store.asked == []


def test_of_sizes_that_differ_little_some_are_searched(store: Remembering) -> None:
    """Those from 9 to 16 are a bucket; all calls are right."""

    @optimized(results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    for _ in range(2):
        for size in range(9, 17):
            assert f(jnp.ones(size)) == 2 * size
        assert f.settle(PATIENCE)
    assert len(f.found) == KINDS_PER_BUCKET
    f(jnp.ones(17))
    assert f.settle(PATIENCE)
    assert len(f.found) == KINDS_PER_BUCKET + 1


def test_an_array_may_be_given_away_while_the_search_goes_on(held: Held) -> None:
    @optimized(results=held, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    mine = A + 1
    f(mine)
    mine.delete()
    held.go_on.set()
    assert f.settle(PATIENCE)
    assert len(f.found) == 1
    assert f.found[0].takes(A)


def test_what_goes_wrong_is_told_by_the_next_call(tmp_path: Path) -> None:
    """In the caller's thread, once; and the function runs."""

    class Broken(Remembering):
        def find(self, key: Any) -> Any:
            raise LookupError("no find")

    @optimized(results=Broken(tmp_path / "results.sqlite"), target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    f(A)
    assert f.settle(PATIENCE)
    with pytest.warns(RuntimeWarning, match="runs as it is: LookupError: no find"):
        assert f(A) == jnp.sum(A * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(A)


def test_what_cannot_be_traced_is_told_at_once(store: Remembering) -> None:
    @optimized(results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return x if x.sum() > 0 else -x

    with pytest.warns(RuntimeWarning, match="runs as it is: cannot trace"):
        assert f(A) is A
    assert f(A) is A


def test_where_the_machine_has_one_core_nothing_is_searched(
    store: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "usable_cores", lambda: 1)

    @optimized(results=store, target="cpu")
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(x * 2)

    assert f(A) == jnp.sum(A * 2)
    assert f.settle(0)
    assert store.asked == []


def test_whether_it_waits_is_yes_or_no() -> None:
    with pytest.raises(OptimizeError, match="wait has to be True or False, not 'no'"):
        optimized(wait="no")  # type: ignore[call-overload]  # that is the test


def test_what_is_called_most_is_searched_first() -> None:
    searches, order, held = BackgroundSearches(), list[str](), threading.Event()
    begun = threading.Event()

    def search(name: str, calls: int, before: threading.Event | None = None) -> BackgroundSearch:
        async def run() -> None:
            begun.set()
            assert before is None or before.wait(PATIENCE)
            order.append(name)

        return BackgroundSearch(run, calls)

    every = [search("first", 1, held), search("seldom", 2), search("often", 9)]
    searches.submit(every[0])
    assert begun.wait(PATIENCE)
    for waiting in every[1:]:
        searches.submit(waiting)
    held.set()
    assert all(one.ended.wait(PATIENCE) for one in every)
    assert order == ["first", "often", "seldom"]


SCRIPT = """
import os, sys, threading
import jax.numpy as jnp
from aiosearch.optimizer import background, optimized
from aiosearch.optimizer.outcomes.results import Results

background.usable_cores = lambda: 2
rewriting = threading.Event()

def tell(text):
    if "compiled" in text or "rewriting" in text:
        rewriting.set()

@optimized(results=Results.open(sys.argv[1]), target="cpu", kernels=False, tell=tell)
def f(x):
    return jnp.trace(x @ x)

f(jnp.ones((64, 64)))
assert rewriting.wait(60)
nice = {os.getpriority(os.PRIO_PROCESS, int(task)) for task in os.listdir("/proc/self/task")}
children = [
    child
    for task in os.listdir("/proc/self/task")
    for child in open(f"/proc/self/task/{task}/children").read().split()
]
print(min(nice), *sorted({os.getpriority(os.PRIO_PROCESS, int(child)) for child in children}))
print(*children)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_search_ends_with_the_program_and_leaves_no_process(tmp_path: Path) -> None:
    """Its processes are less urgent than the program, which does not wait for it."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "results.sqlite"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    urgency, children = (line.split() for line in ended.stdout.splitlines())
    assert urgency[0] == str(os.getpriority(os.PRIO_PROCESS, 0))
    assert {*urgency[1:]} == {str(min(int(urgency[0]) + background.NICENESS, 19))}
    assert children
    assert not [child for child in children if Path(f"/proc/{child}").exists()]
