"""A search and its machines as users start them: a console script each, over a real port."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from aiosearch_sockets import new_token
from testkit.hosts.terminals import PATIENCE, Console, nodes, until

from aiosearch.workloads import Lopsided

TREE = "aiosearch.workloads.shapes:Lopsided"
PUZZLE = """
class Puzzle:
    def root(self) -> int:
        return 0

    def expand(self, node: int) -> list[int]:
        return [node + 1] if node < 9 else []

    def solutions(self, node: int) -> list[int]:
        return []
"""


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    made = Console(tmp_path)
    yield made
    made.close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_two_machines_do_the_whole_search_and_go_home(console: Console) -> None:
    search, address = console.search(TREE, "--set", "height=36", "--workers", "0")
    workers = [console.worker(address, "--workers", "1") for _ in range(2)]
    output, told = search.communicate(timeout=PATIENCE)
    assert search.returncode == 0
    assert nodes(told) == Lopsided(height=36).nodes
    assert int(output) in Lopsided(height=36).answers
    for worker in workers:
        _, said = worker.communicate(timeout=PATIENCE)
        assert worker.returncode == 0
        assert "the search is over" in said


def test_a_machine_leaves_when_it_is_told_to_and_one_that_is_killed_is_done_without(
    console: Console,
) -> None:
    tree = Lopsided(height=39)
    search, address = console.search(TREE, "--set", "height=39", "--workers", "1")
    leaving, killed = (console.worker(address, "--workers", "1") for _ in range(2))
    until(lambda: len(console.status(address)["machines"]) == 2)
    killed.kill()
    leaving.send_signal(signal.SIGTERM)
    _, said = leaving.communicate(timeout=PATIENCE)
    assert leaving.returncode == 0
    assert "it is let go" in said
    _, told = search.communicate(timeout=PATIENCE)
    assert search.returncode == 0
    assert "is gone" in told
    assert nodes(told) == tree.nodes


def test_a_frozen_machine_is_given_up_and_ignored_when_it_comes_back(console: Console) -> None:
    tree = Lopsided(height=40)
    words = ("--set", "height=40", "--workers", "1", "--patience", "1")
    search, address = console.search(TREE, *words)
    frozen = console.worker(address, "--workers", "1")
    until(lambda: len(console.status(address)["machines"]) == 1)
    frozen.send_signal(signal.SIGSTOP)
    until(lambda: console.status(address)["machines"] == [])
    (departure,) = console.status(address)["departed"]
    assert "nothing was heard of" in departure["reason"]
    frozen.send_signal(signal.SIGCONT)
    _, told = search.communicate(timeout=PATIENCE)
    assert nodes(told) == tree.nodes


def test_a_search_that_is_killed_goes_on_from_its_journal_with_the_same_machine(
    console: Console,
) -> None:
    tree, port = Lopsided(height=36), _free_port()
    journal = ("--journal", "run.journal")
    words = (TREE, "--set", "height=36", "--workers", "0", *journal)
    search, address = console.search(*words, port=port)
    worker = console.worker(address, "--workers", "1")
    until(lambda: (console.status(address)["searches"] or [{"nodes": 0}])[0]["nodes"] > 10_000)
    search.kill()
    search.communicate()
    again, _ = console.search(*journal, "--resume", "--workers", "0", port=port)
    _, told = again.communicate(timeout=PATIENCE)
    assert nodes(told) == tree.nodes
    _, said = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0
    assert "connecting again" in said


def test_z3_is_asked_once_whoever_wants_to_know(console: Console) -> None:
    task = ("aiosearch.workloads.superopt:Superopt", "--set", "task=P2", "--set", "length=3")
    alone = console.start("search", *task, "--workers", "1", "--no-cache")
    search, address = console.search(*task, "--workers", "0", "--no-cache")
    for _ in range(2):
        console.worker(address, "--workers", "1")
    asked = []
    for process in (alone, search):
        _, told = process.communicate(timeout=PATIENCE)
        match = re.search(r"^z3 +([\d,]+) asked", told, re.MULTILINE)
        assert match is not None, told
        asked.append(match[1])
    assert asked[0] == asked[1] != "1"


def test_who_asks_is_told_what_each_machine_is_and_does(console: Console) -> None:
    """Its name is shown so that no terminal obeys it."""
    _, address = console.search(TREE, "--set", "height=46", "--workers", "0")
    console.worker(address, "--workers", "2", "--name", "\x1b[2Jthere")
    until(lambda: [one["busy"] for one in console.status(address)["machines"]] == [2])
    asked = console.start("status", address, "--token-file", str(console.token))
    answer, _ = asked.communicate(timeout=PATIENCE)
    (line,) = [line for line in answer.splitlines() if "there" in line]
    assert line.startswith(r"\x1b[2Jthere (127.0.0.1:")
    assert re.search(r"[012] of 2 work", line)
    assert {version("aiosearch"), version("z3-solver")} <= set(line.split())


def test_who_watches_is_told_how_far_it_is_until_the_search_is_over(console: Console) -> None:
    """Each answer is dated and has the explored share; the end of the search ends the watching."""
    search, address = console.search(TREE, "--set", "height=46", "--workers", "1")
    words = ("status", address, "--token-file", str(console.token), "--watch", "0.1")
    watching = console.start(*words)
    until(lambda: console.status(address)["searches"][0]["explored"] > 0)
    search.send_signal(signal.SIGINT)
    search.communicate(timeout=PATIENCE)
    answers, said = watching.communicate(timeout=PATIENCE)
    assert watching.returncode == 0
    assert "the search is over, or cannot be reached" in said
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", answers, re.MULTILINE)
    assert re.search(r"Lopsided +sockets .* \S*\d%", answers)


@pytest.mark.parametrize("way", ["token", "open to others"])
def test_a_machine_without_the_right_token_is_told_in_a_sentence(
    console: Console, way: str, tmp_path: Path
) -> None:
    _, address = console.search(TREE, "--set", "height=40", "--workers", "1")
    other = tmp_path / "other"
    new_token(other)
    if way == "open to others":
        os.chmod(other, 0o644)
    worker = console.start("worker", "--connect", address, "--token-file", str(other))
    _, said = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 2
    assert len(said.strip().splitlines()) == 1
    assert "Traceback" not in said


@pytest.mark.parametrize("address", ["nohost", "127.0.0.1:99999"])
def test_a_worker_does_not_wait_for_what_is_no_address(console: Console, address: str) -> None:
    worker = console.start("worker", "--connect", address, "--token-file", str(console.token))
    _, said = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 2
    assert said == (
        f"aiosearch: {address!r} is no address: write HOST:PORT, as in 127.0.0.1:7000 or"
        " [::1]:7000\n"
    )


def test_a_search_that_no_machine_can_serve_says_why_everywhere(
    console: Console, tmp_path: Path
) -> None:
    """On its own screen, on the machine's, and to whoever asks; it ends as it was told to."""
    (tmp_path / "puzzle.py").write_text(PUZZLE)
    search, address = console.search("puzzle.py:Puzzle", "--workers", "0", "--seconds", "9")
    worker = console.worker(address, "--workers", "2")
    until(lambda: console.status(address)["refused"])
    asked = console.start("status", address, "--token-file", str(console.token))
    answer, _ = asked.communicate(timeout=PATIENCE)
    _, told = search.communicate(timeout=PATIENCE)
    _, said = worker.communicate(timeout=PATIENCE)
    for text in (answer, told, said):
        assert text.count("puzzle:Puzzle is not installed; install the package that has it") == 1
    assert worker.returncode == 1
    assert said.endswith("aiosearch: no worker of this machine could serve, for the reason above\n")
    assert "worker 0 died" not in told
    assert "limit: 9 seconds are over" in told
