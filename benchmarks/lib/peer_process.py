"""A library that we are measured beside, in a process of its own and under a Python of its own.

Its packages are large and want other versions than ours, so they need not be installed here: a
benchmark takes the path of a Python that has them. What runs there is a script of `lib` that
imports neither aiosearch nor jax, and answers with lines of JSON, one for each that it is sent.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class PeerError(Exception):
    """A peer is not there, or its process ended."""


@dataclass(frozen=True)
class Peer:
    """A library: what it is called, what has to be importable, and how one gets it."""

    name: str
    package: str
    imported: str
    """More than the package, where that alone does not do."""
    lacking: str
    """What is said of a Python without it, before the reason."""
    advice: str


TVM = Peer(
    "TVM",
    "tvm",
    "tvm.s_tir.meta_schedule, xgboost",
    "TVM that tunes",
    "`uv sync --group tvm`, or --tvm with the path of a Python that has it, puts its figures beside"
    " ours",
)
TORCH = Peer(
    "PyTorch",
    "torch",
    "torch",
    "PyTorch",
    "a build for CPUs, here or in the Python that --torch names, puts its figures beside ours",
)


def interpreter(peer: Peer, chosen: str | None) -> str:
    """A Python that has the peer: the chosen one, or this; raises `PeerError` if there is none."""
    if chosen is None:
        if find_spec(peer.package) is None:
            raise PeerError(f"{peer.name} is not installed here: {peer.advice}")
        return sys.executable
    try:
        probe = subprocess.run(
            [chosen, "-c", f"import {peer.imported}"], capture_output=True, text=True
        )
    except OSError as error:
        raise PeerError(f"{chosen} is no Python: {error.strerror}") from None
    if probe.returncode:
        raise PeerError(f"{chosen} has no {peer.lacking}: {_last_line(probe.stderr)}")
    return chosen


@dataclass
class PeerProcess:
    """A process that runs, and is asked."""

    name: str
    process: subprocess.Popen[str]
    errors: Path
    """Where it writes what it has to say beside its answers."""

    def answer(self) -> Any:
        """The next line; raises `PeerError` with the last words of a process that has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            reason = _last_line(self.errors.read_text())
            raise PeerError(f"{self.name}'s process ended with {code}: {reason}")
        return json.loads(line)

    def asked(self, line: str) -> Any:
        """The answer to a line."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, which `answer` says with its reason
        return self.answer()


@contextmanager
def peer_process(
    name: str, command: Sequence[str], scratch: Path, environment: Mapping[str, str]
) -> Iterator[PeerProcess]:
    """Runs a command as long as the block lasts."""
    errors = scratch / "errors"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, **environment},
            start_new_session=True,  # with the processes that it starts, which TVM's outlive it
        )
    try:
        yield PeerProcess(name, process, errors)
    finally:
        with suppress(ProcessLookupError):  # nobody of them is left
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no reason given")
