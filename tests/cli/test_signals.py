from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from testkit.hosts.console import Cli, Puzzle, Start

QUEENS = "aiosearch.workloads.queens:Queens"
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
LONG = ("search", QUEENS, "--set", "n=16", "--workers", "1")


def until(process: subprocess.Popen[str], kind: str) -> dict[str, object]:
    """Reads JSON lines up to an event."""
    assert process.stdout is not None
    for line in process.stdout:
        event: dict[str, object] = json.loads(line)
        if event["type"] == kind:
            return event
    raise AssertionError(f"no {kind}")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal(start: Start, number: int) -> None:
    """One signal ends the search in good order: the last event is there, the worker is gone."""
    process = start(*LONG, "--json")
    pid = until(process, "WorkerJoined")["pid"]
    until(process, "Improved")
    process.send_signal(number)
    finished = until(process, "SearchFinished")
    assert process.wait(20) == 130
    assert (finished["status"], finished["reason"]) == ("cancelled", "interrupted")
    assert finished["best"] is not None
    assert isinstance(pid, int)
    assert not alive(pid)


def test_ctrl_c_of_a_terminal(start: Start, cli: Cli) -> None:
    """Ctrl-C, which the workers get too, keeps what is found, and tells how to go on."""
    process = start(*LONG, "--journal", "j")
    assert process.stderr is not None
    while not process.stderr.readline().startswith("#16 "):
        pass
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out.startswith("(")
    assert "Traceback" not in err
    assert err.splitlines()[-1] == f"to go on: aiosearch {' '.join(LONG)} --journal j --resume"
    resumed = cli("search", "--journal", "j", "--resume", "--workers", "0", "--nodes", "1")
    assert "resumed at" in resumed.err


def test_ctrl_c_while_workers_start(start: Start) -> None:
    """Ctrl-C in the first moments ends everything without a traceback."""
    process = start(*LONG, "--json")
    until(process, "SearchStarted")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "")


def test_ctrl_c_while_a_worker_is_stuck(start: Start, puzzle: Puzzle) -> None:
    """A worker that does not come back from its node is not waited for."""
    process = start("search", puzzle("Stuck"), "--workers", "1", "--json")
    until(process, "TaskAssigned")
    assert process.stderr is not None
    assert process.stderr.readline() == "stuck\n"
    process.send_signal(signal.SIGINT)
    until(process, "SearchFinished")
    assert process.wait(20) == 130


def test_twice_while_the_host_is_stuck(start: Start, puzzle: Puzzle) -> None:
    """Ctrl-C pressed twice also ends a search whose problem holds up the process itself."""
    process = start("search", puzzle("Stuck"), "--workers", "0", "--quiet", "--journal", "j")
    assert process.stderr is not None
    assert process.stderr.readline() == "stuck\n"
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    while process.poll() is None:  # two signals that come at once may be one
        process.send_signal(signal.SIGINT)
    assert process.returncode in (130, -signal.SIGINT)


def test_twice_while_nobody_reads(start: Start) -> None:
    """Ctrl-C pressed twice does not wait until a slow reader has read everything."""
    process = start(*LONG, "--json")
    pid = until(process, "WorkerJoined")["pid"]
    assert isinstance(pid, int)
    wait_until_full(process)
    process.send_signal(signal.SIGINT)
    while alive(pid):
        time.sleep(0.01)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130


def wait_until_full(process: subprocess.Popen[str]) -> None:
    """Waits until a pipe of the usual 64 KB holds so much that its writer has to wait."""
    assert process.stdout is not None
    before, held = -1, 0
    while held < 60_000 or held != before:
        time.sleep(0.05)
        before = held
        waiting = fcntl.ioctl(process.stdout, termios.FIONREAD, bytes(4))
        held = int.from_bytes(waiting, sys.byteorder)


def test_interrupt_on_import(start: Start) -> None:
    """Ctrl-C while the problem is imported is no traceback either."""
    text = "import sys, time\nsys.stderr.write('in\\n')\nsys.stderr.flush()\ntime.sleep(60)"
    Path("slow_module.py").write_text(text)
    process = start("search", "slow_module.py:X")
    assert process.stderr is not None
    assert process.stderr.readline() == "in\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == ("", "interrupted\n")
    assert process.returncode == 130


def test_terminal() -> None:
    """On a terminal, a line that changes shows how it goes; at the end the cursor is back."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "aiosearch", *LONG],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
        start_new_session=True,
    )
    os.close(theirs)
    shown = read_until(ours, "solutions  open")
    process.send_signal(signal.SIGINT)
    shown += read_until(ours, "cancelled: interrupted")
    out, _ = process.communicate(timeout=20)
    os.close(ours)
    assert process.returncode == 130
    assert out.startswith(b"(")
    assert shown.count(HIDE_CURSOR) == shown.count(SHOW_CURSOR) == 1


def test_verify_shows_on_a_terminal_what_each_layer_says() -> None:
    """In a line that is gone when the verdict is told."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "aiosearch", "verify", "rms_norm", "rms_norm", "--shape=row=4"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    read_until(ours, "a fields: agree; b proof: found; c floats: ")
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0
    assert out.startswith(b"proved")


def test_a_simulation_says_on_a_terminal_how_far_it_is(cli: Cli) -> None:
    import pty

    cli("search", "aiosearch.testing.problems:Balanced", "--record-tree", "some.tree")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "aiosearch", "simulate", "some.tree", "--workers", "1,2"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    shown = read_until(ours, "1 of 2 runs  now queue with 2 workers")
    assert "0 of 2 runs  now queue with 1 worker" in shown
    out, _ = process.communicate(timeout=20)
    os.close(ours)
    assert process.returncode == 0
    assert len(out.splitlines()) == 3


def read_until(terminal: int, text: str) -> str:
    shown = ""
    while text not in shown:
        shown += os.read(terminal, 4096).decode()
    return shown
