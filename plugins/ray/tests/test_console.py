"""The console script with a Ray of its own, as somebody starts it who has no cluster."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiosearch.workloads import Lopsided

PATIENCE = 60


@pytest.fixture
def search(ray: Any, tmp_path: Path) -> Iterator[Any]:
    """Starts searches of lopsided trees."""
    started: list[subprocess.Popen[str]] = []

    def start(height: int) -> subprocess.Popen[str]:
        tree = ("aiosearch.workloads.shapes:Lopsided", "--set", f"height={height}")
        where = ("--strategy", "ray", "--listen", "local")
        process = subprocess.Popen(
            [sys.executable, "-m", "aiosearch", "search", *tree, *where],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_search_needs_no_more_than_the_name_of_the_strategy(search: Any) -> None:
    process = search(30)
    found, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert int(found) in Lopsided(height=30).answers
    nodes = re.search(r"^nodes +([\d,]+) in", told, re.MULTILINE)
    assert nodes is not None
    assert int(nodes[1].replace(",", "")) == Lopsided(height=30).nodes
    assert "ray start --address=" in told


def test_a_search_that_is_terminated_says_how_far_it_came_and_nothing_else(search: Any) -> None:
    process = search(60)
    for line in process.stderr:
        if line.startswith("#1"):
            break
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "cancelled: interrupted" in told
    assert "SIGTERM received" not in told
