"""A peer is asked in a process of its own, and says why it ended."""

from __future__ import annotations

import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from lib.peer_process import TORCH, TVM, Peer, PeerError, interpreter, peer_process

DOUBLING = """
import sys
for line in sys.stdin:
    print(2 * int(line), flush=True)
"""


@pytest.mark.parametrize("peer", [TVM, TORCH], ids=lambda peer: peer.name)
def test_a_python_without_the_peer_is_refused_with_what_it_lacks(peer: Peer) -> None:
    with pytest.raises(PeerError, match="is no Python"):
        interpreter(peer, "/nowhere/python")
    if find_spec(peer.package) is None:
        with pytest.raises(PeerError, match=f"No module named '{peer.package}'"):
            interpreter(peer, sys.executable)
        with pytest.raises(PeerError, match=f"{peer.name} is not installed here: .*--"):
            interpreter(peer, None)


def test_a_peer_answers_each_line(tmp_path: Path) -> None:
    with peer_process("Doubling", [sys.executable, "-c", DOUBLING], tmp_path, {}) as peer:
        assert [peer.asked("4"), peer.asked("21")] == [8, 42]


def test_a_peer_that_has_ended_is_quoted(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DOUBLING]
    with (
        peer_process("Doubling", command, tmp_path, {}) as peer,
        pytest.raises(PeerError, match=r"Doubling's process ended with 1: ValueError: .*four"),
    ):
        peer.asked("four")


BREEDING = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_what_a_peer_has_started_ends_with_it(tmp_path: Path) -> None:
    """Of a library that is stopped in the middle no worker goes on beside the next measurement."""
    with peer_process("Breeding", [sys.executable, "-c", BREEDING], tmp_path, {}) as peer:
        child = peer.answer()
        os.kill(child, 0)
    deadline = time.monotonic() + 30
    while Path(f"/proc/{child}/cmdline").exists() and Path(f"/proc/{child}/cmdline").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)
