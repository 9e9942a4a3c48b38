"""What the tests of the verification service share: questions, and a check that nothing leaks."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from aiosearch.checks.questions import digest, z3_version
from aiosearch.problem import Obligation
from aiosearch.processes.fork_client import live_fork_servers

SYMBOLS = "(declare-sort T 0)(declare-fun add (T T) T)(declare-fun mul (T T) T)\n"
AXIOMS = (
    SYMBOLS
    + """
(assert (forall ((x T) (y T)) (! (= (add x y) (add y x)) :pattern ((add x y)))))
(assert (forall ((x T) (y T)) (! (= (mul x y) (mul y x)) :pattern ((mul x y)))))
(assert (forall ((x T) (y T) (z T))
  (! (= (mul x (add y z)) (add (mul x y) (mul x z))) :pattern ((mul x (add y z))))))
"""
)
UNDECIDED = "".join(f"(declare-const {v} Int)(assert (> {v} 0))" for v in "xyz") + (
    "(assert (= (+ (* x x x) (* y y y)) (* z z z)))"
)


def proved(number: int = 0) -> Obligation:
    constants = "".join(f"(declare-const {v}{number} T)" for v in "abc")
    left, right = "(mul a{0} (add b{0} c{0}))", "(add (mul c{0} a{0}) (mul b{0} a{0}))"
    goal = f"(assert (not (= {left} {right})))".format(number)
    return Obligation(SYMBOLS + constants + goal, axioms="ring")


def refuted(number: int = 0) -> Obligation:
    return Obligation(f"(declare-const x Int)(assert (> x {number}))")


def incomplete() -> Obligation:
    return Obligation(
        SYMBOLS + "(declare-const a T)(declare-const b T)(assert (not (= (add a b) (mul a b))))",
        axioms="ring",
    )


def endless(rlimit: int = 4_000_000_000, key: bytes = b"") -> Obligation:
    """Takes its whole budget or time: Fermat's last theorem for cubes."""
    return Obligation(UNDECIDED, rlimit=rlimit, key=key)


def digest_of(obligation: Obligation) -> bytes:
    return digest(obligation, AXIOMS if obligation.axioms else "", z3_version())


@pytest.fixture
def goals() -> SimpleNamespace:
    return SimpleNamespace(
        axioms={"ring": AXIOMS},
        proved=proved,
        refuted=refuted,
        incomplete=incomplete,
        endless=endless,
        digest=digest_of,
    )


@pytest.fixture
def until():
    """Waits for a state that nothing announces, such as a process being up again."""

    async def wait(condition):
        while not condition():  # noqa: ASYNC110 (nothing announces it)
            await asyncio.sleep(0.001)

    return wait


@pytest.fixture(autouse=True)
def nothing_left():
    """No test leaves a file descriptor or a child process behind."""
    before, children = open_files(), child_processes()
    yield
    assert open_files() <= before
    assert child_processes() <= children


def open_files():
    """Those of this process, but for the doors of nurseries, which end by themselves."""
    doors = {str(one.door) for one in live_fork_servers()}
    return set(os.listdir("/proc/self/fd")) - doors


def child_processes():
    """Those of this process; other tests, of multiprocessing, may have some for good."""
    found, kept = set(), {str(one.pid) for one in live_fork_servers()}
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread may end meanwhile
            found.update((task / "children").read_text().split())
    return found - kept
