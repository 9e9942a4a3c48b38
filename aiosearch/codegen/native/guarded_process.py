"""The process in which a kernel is tried out: `python -m aiosearch.codegen.native.guarded_process <
TRIAL`."""

from __future__ import annotations

import signal
import subprocess
import sys

import msgspec
from msgspec import Struct

from ...processes.launch import command, environment
from ..errors import NativeError
from .compiler import load
from .guarded_run import run_guarded
from .kernel_program import KernelProgram

TRIAL_TIMEOUT_SECONDS = 60.0
"""Seconds for two runs on one thread; a kernel that takes longer is of no use."""


class KernelTrial(Struct, frozen=True, array_like=True):
    """Exactly the object code that would be loaded."""

    native: KernelProgram
    code: bytes
    handler: bytes


def run_in_guarded_process(trial: KernelTrial) -> None:
    """Tries a kernel out in a process of its own. Raises `NativeError` where it does not pass."""
    name = trial.native.name
    ended = _ended(trial)
    if ended.returncode == -signal.SIGKILL:  # which no kernel does
        ended = _ended(trial)
    if ended.returncode == -signal.SIGKILL:
        raise NativeError(f"what tries out the kernel {name} is killed, twice in two tries")
    # Any other signal is the guard page's, or that of an instruction that does not exist here.
    if ended.returncode < 0:
        raise NativeError(
            f"the kernel {name} reads or writes outside of its arrays: it died of"
            f" {signal.Signals(-ended.returncode).name}"
        )
    if ended.returncode:
        # A Python error exits with 1 and names itself; a signal has a negative return code.
        lines = ended.stderr.decode(errors="replace").split("\n")
        raise NativeError("; ".join(line for line in lines if line))


def _ended(trial: KernelTrial) -> subprocess.CompletedProcess[bytes]:
    """The process after it has ended. Raises `NativeError` on timeout."""
    payload = msgspec.msgpack.encode(trial)
    try:
        return subprocess.run(
            command(__name__),
            input=payload,
            capture_output=True,
            timeout=TRIAL_TIMEOUT_SECONDS,
            check=False,
            env=environment(),
        )
    except subprocess.TimeoutExpired:
        name = trial.native.name
        raise NativeError(f"the kernel {name} did not end in {TRIAL_TIMEOUT_SECONDS:g} s") from None


def main() -> int:
    """Tries out the trial on standard input; the last line on standard error says what was
    wrong."""
    trial = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=KernelTrial)
    try:
        run_guarded(trial.native, load(trial.native, trial.code, trial.handler))
    except (NativeError, MemoryError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
