"""A search and its machines as users start them: a console script each, in terminals of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from aiosearch_sockets import new_token
from testkit.hosts.network_namespaces import Host

AIOSEARCH = (sys.executable, "-m", "aiosearch")
PATIENCE = 60
"""Seconds after which what a test waits for is not coming."""


class Console:
    """Console scripts on one host, this machine unless another is named, that end with the test.

    Consoles of one folder have one token.
    """

    def __init__(self, folder: Path, host: Host | None = None) -> None:
        self.token = folder / "token"
        if not self.token.exists():
            new_token(self.token)
        self._folder = folder
        self._address = host.address if host else "127.0.0.1"
        self._inside = host.inside if host else ()
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*self._inside, *AIOSEARCH, *words],
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
            "search", *words, "--strategy", "sockets", "--listen", f"{self._address}:{port}",
            "--token-file", str(self.token),
        )  # fmt: skip
        return process, found(process.stderr, r"--connect (\S+)")

    def worker(self, address: str, *words: str) -> subprocess.Popen[str]:
        return self.start("worker", "--connect", address, "--token-file", str(self.token), *words)

    def status(self, address: str) -> Any:
        words = ("status", address, "--token-file", str(self.token), "--json")
        command = [*self._inside, *AIOSEARCH, *words]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(run.stdout)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


def found(stream: IO[str] | None, pattern: str) -> str:
    """Reads until a line matches, and gives its first group, or the match."""
    assert stream is not None
    for line in stream:
        if match := re.search(pattern, line):
            return match[1] if match.groups() else match[0]
    raise AssertionError(f"nothing like {pattern} was said")


def nodes(text: str) -> int:
    """How many a search says that it explored."""
    match = re.search(r"^nodes +([\d,]+) in", text, re.MULTILINE)
    assert match is not None, text
    return int(match[1].replace(",", ""))


def until(condition: Callable[[], object]) -> None:
    """Asks again until it holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)
