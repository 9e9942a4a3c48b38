"""Kernels that do what they must not, tried out in a process of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from testkit.kernels.llvm_texts import calling_nowhere, endless, reversing, writing

from aiosearch.codegen.errors import NativeError
from aiosearch.codegen.native import guarded_process
from aiosearch.codegen.native.compiler import compile_handler, compile_program
from aiosearch.codegen.native.guarded_process import KernelTrial, run_in_guarded_process
from aiosearch.codegen.native.kernel_program import KernelProgram
from aiosearch.codegen.native.machine import host


def tried(native: KernelProgram) -> None:
    run_in_guarded_process(
        KernelTrial(native, compile_program(native, host()), compile_handler(host()))
    )


def test_out_of_bounds() -> None:
    """A kernel that touches what is not its own dies of it, and whoever asked is told so."""
    with pytest.raises(NativeError, match=r"outside of its arrays: it died of SIG(SEGV|BUS)"):
        tried(writing(1000, 1))


def test_good_ones_pass() -> None:
    """A kernel that harms nothing passes."""
    tried(reversing(1000))


def test_what_is_said_of_others() -> None:
    """The reason comes back from the process, line by line."""
    with pytest.raises(
        NativeError, match=r"not found: \[ nowhere \].*the kernel calling cannot be loaded"
    ):
        tried(calling_nowhere())


def test_endless_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that does not end is stopped."""
    monkeypatch.setattr(guarded_process, "TRIAL_TIMEOUT_SECONDS", 0.5)
    with pytest.raises(NativeError, match=r"the kernel endless did not end in 0\.5 s"):
        tried(endless())


def test_a_process_that_is_killed_says_nothing_of_a_kernel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There is another one; if that is killed as well, it is said."""
    monkeypatch.setattr(guarded_process.sys, "executable", killed(tmp_path / "once", 1))
    tried(reversing(10))
    monkeypatch.setattr(guarded_process.sys, "executable", killed(tmp_path / "always", 9))
    with pytest.raises(NativeError, match="is killed, twice in two tries"):
        tried(reversing(10))
    assert (tmp_path / "always.marks").read_text().count("x") == 2


def killed(path: Path, times: int) -> str:
    """A Python that is killed the first `times` times."""
    marks = f"{path}.marks"
    path.write_text(
        f"#!/bin/sh\ntouch {marks}\n"
        f'[ $(wc -c < {marks}) -ge {times} ] && exec {sys.executable} "$@"\n'
        f"printf x >> {marks}\nkill -KILL $$\n"
    )
    path.chmod(0o755)
    return str(path)
