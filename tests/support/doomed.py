"""Kernels that die of what they do, each in a fork of one process that has everything loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import msgspec

from aiosearch.codegen.native.compiler import compile_handler, compile_program, load
from aiosearch.codegen.native.guarded_run import run_guarded
from aiosearch.codegen.native.kernel_program import KernelProgram
from aiosearch.codegen.native.machine import host


def ends(programs: Sequence[KernelProgram]) -> list[str]:
    """Of what signal each died that was tried out, or nothing where it passed."""
    ended = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        input=msgspec.msgpack.encode(programs),
        capture_output=True,
        check=True,
    )
    return ended.stdout.decode().split("\n")[:-1]


def main() -> Iterator[str]:
    programs = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[KernelProgram])
    for native in programs:
        library = load(native, compile_program(native, host()), compile_handler(host()))
        child = os.fork()
        if not child:
            run_guarded(native, library)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        yield signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else ""


if __name__ == "__main__":
    sys.stdout.write("".join(f"{one}\n" for one in main()))
