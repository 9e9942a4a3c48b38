"""A search and its machines as users start them: a console script each, over a real port."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from aiosearch_sockets import new_token

from aiosearch.workloads import Lopsided

TREE = "aiosearch.workloads.shapes:Lopsided"
AIOSEARCH = (sys.executable, "-m", "aiosearch")
PATIENCE = 60


class Console:
    """Console scripts that end with the test."""

    def __init__(self, folder: Path) -> None:
        self.token = folder / "token"
        new_token(self.token)
        self._folder = folder
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*AIOSEARCH, *words],
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process

    def search(self, *words: str, port: int = 0) -> tuple[subprocess.Popen[str], str]:
        """Starts a search, and gives the address that it listens on."""
        process = self.start(
            "search", *words, "--strategy", "sockets", "--listen", f"127.0.0.1:{port}",
            "--token-file", str(self.token),
        )  # fmt: skip
        assert process.stderr is not None
        return process, _found(process.stderr, r"--connect (\S+)")

    def worker(self, address: str, *words: str) -> subprocess.Popen[str]:
        return self.start("worker", "--connect", address, "--token-file", str(self.token), *words)

    def status(self, address: str) -> Any:
        words = ("status", address, "--token-file", str(self.token), "--json")
        run = subprocess.run([*AIOSEARCH, *words], capture_output=True, text=True, check=True)
        return json.loads(run.stdout)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


def _found(stream: IO[str], pattern: str) -> str:
    for line in stream:
        if match := re.search(pattern, line):
            return match[1] if match.groups() else match[0]
    raise AssertionError(f"nothing like {pattern} was said")


def _nodes(text: str) -> int:
    match = re.search(r"^nodes +([\d,]+) in", text, re.MULTILINE)
    assert match is not None, text
    return int(match[1].replace(",", ""))


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    made = Console(tmp_path)
    yield made
    made.close()


def _until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_two_machines_do_the_whole_search_and_go_home(console: Console) -> None:
    search, address = console.search(TREE, "--set", "height=27", "--workers", "0")
    workers = [console.worker(address, "--workers", "1") for _ in range(2)]
    output, told = search.communicate(timeout=PATIENCE)
    assert search.returncode == 0
    assert _nodes(told) == Lopsided(height=27).nodes
    assert int(output) in Lopsided(height=27).answers
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
    _until(lambda: len(console.status(address)["machines"]) == 2)
    killed.kill()
    leaving.send_signal(signal.SIGTERM)
    _, said = leaving.communicate(timeout=PATIENCE)
    assert leaving.returncode == 0
    assert "it is let go" in said
    _, told = search.communicate(timeout=PATIENCE)
    assert search.returncode == 0
    assert "is gone" in told
    assert _nodes(told) == tree.nodes


def test_a_frozen_machine_is_given_up_and_ignored_when_it_comes_back(console: Console) -> None:
    tree = Lopsided(height=39)
    search, address = console.search(TREE, "--set", "height=39", "--workers", "1")
    frozen = console.worker(address, "--workers", "1")
    _until(lambda: len(console.status(address)["machines"]) == 1)
    frozen.send_signal(signal.SIGSTOP)
    _until(lambda: console.status(address)["machines"] == [])
    frozen.send_signal(signal.SIGCONT)
    _, told = search.communicate(timeout=PATIENCE)
    assert _nodes(told) == tree.nodes


def test_a_search_that_is_killed_goes_on_from_its_journal_with_the_same_machine(
    console: Console,
) -> None:
    tree, port = Lopsided(height=36), _free_port()
    journal = ("--journal", "run.journal")
    words = (TREE, "--set", "height=36", "--workers", "0", *journal)
    search, address = console.search(*words, port=port)
    worker = console.worker(address, "--workers", "1")
    _until(lambda: (console.status(address)["searches"] or [{"nodes": 0}])[0]["nodes"] > 10_000)
    search.kill()
    search.communicate()
    again, _ = console.search(*journal, "--resume", "--workers", "0", port=port)
    _, told = again.communicate(timeout=PATIENCE)
    assert _nodes(told) == tree.nodes
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
