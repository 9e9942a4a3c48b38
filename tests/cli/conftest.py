"""Runs the console script in this process, or as a process of its own that gets signals."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testkit.hosts.console import Cli, Outcome, Puzzle, Start

from aiosearch.cli import main

PUZZLES = Path(__file__).with_name("puzzles.py")


@pytest.fixture(autouse=True)
def _somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs every test in an empty folder, with no settings around it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for variable in os.environ:
        if variable.startswith("AIOSEARCH_"):
            monkeypatch.delenv(variable)


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command in this process."""

    def run(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = main(arguments)
        return Outcome(code, *capfd.readouterr())

    return run


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a command as the leader of a process group of its own."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "aiosearch", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        process = subprocess.Popen(command, start_new_session=True, text=True, **pipes)
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def puzzle() -> Puzzle:
    """Names a problem of puzzles.py by its file."""
    return lambda name: f"{PUZZLES}:{name}"
