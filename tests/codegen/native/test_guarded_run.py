"""Trial runs: what survives them, what is found out, and what dies."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from doomed import ends
from testkit.kernels.llvm_texts import (
    WORDS,
    adding,
    copying,
    counting,
    forgetting,
    keeping,
    load,
    reading,
    reversing,
    store,
    writing,
)

from aiosearch.codegen.errors import NativeError
from aiosearch.codegen.native.compiler import compile_handler, compile_program
from aiosearch.codegen.native.compiler import load as loaded
from aiosearch.codegen.native.guarded_run import run_guarded
from aiosearch.codegen.native.kernel_program import KernelPhase, KernelProgram
from aiosearch.codegen.native.machine import host
from aiosearch.tensor.types import DType

PAGE = os.sysconf("SC_PAGE_SIZE")


def tried(native: KernelProgram) -> None:
    run_guarded(native, loaded(native, compile_program(native, host()), compile_handler(host())))


@pytest.mark.parametrize("dtype", WORDS)
@pytest.mark.parametrize("size", [0, 1, 3, PAGE - 1, PAGE, PAGE + 1])
def test_arrays_may_be_used_to_their_ends(dtype: DType, size: int) -> None:
    """Whatever their size, first and last elements are there, and may be nowhere near a vector."""
    tried(adding(dtype, size))


@pytest.mark.parametrize("size", [16, 100, PAGE // 4, 5000])
def test_temporaries_and_scratch_too(size: int) -> None:
    """So are those of the memory that is not the caller's."""
    tried(reversing(size))
    tried(keeping(size))
    tried(counting(size))


def test_out_of_bounds() -> None:
    """Whoever touches an element beside its arrays, or writes to an input, does not survive."""
    beyond_scratch = replace(keeping(10), phases=(KernelPhase(10, 64),))
    beyond_temporary = replace(reversing(64), temporaries=(4 * 48,))
    outside = [reading(1000, 1), reading(1000, -1), writing(1000, 1), writing(1000, 0, "a")]
    *found, good = ends([*outside, beyond_scratch, beyond_temporary, reversing(64)])
    assert good == ""
    assert len(found) == 6
    assert set(found) <= {"SIGSEGV", "SIGBUS"}


def test_unwritten_elements() -> None:
    """An output that is not written everywhere is found out, as memory holds something else."""
    said = r"forgetting gave two different o: f32\[100\] .* does not write to every element"
    with pytest.raises(NativeError, match=said):
        tried(forgetting(100))


def test_what_was_not_written_is_not_read() -> None:
    """So is a kernel that builds upon what scratch memory held before."""
    lines = [*load("x", "scratch", "float", "0"), *store("%x", "o", "float")]
    with pytest.raises(NativeError, match="reads what it has not written"):
        tried(copying("curious", 10, lines, scratch=4))


def test_blocks_do_not_lean_on_each_other() -> None:
    """So is one whose blocks need others of the same phase to have run before."""
    lines = ["%first = icmp eq i64 %i, 0", "%before = sub i64 %i, 1"]
    lines += ["%j = select i1 %first, i64 0, i64 %before", *load("x", "o", "float", "%j")]
    lines += ["%y = select i1 %first, float 1.0, float %x", *store("%y", "o", "float")]
    with pytest.raises(NativeError, match="gave two different o"):
        tried(copying("leaning", 100, lines))


def test_too_large_for_a_trial() -> None:
    """Memory that is not there is an error that says so."""
    with pytest.raises(MemoryError, match="no memory for"):
        tried(replace(adding(DType.F32, 3), temporaries=(1 << 60,)))


def test_the_log_says_what_went_on(capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever dies of a kernel has said which; who survives, that it did."""
    tried(adding(DType.F32, 3))
    first, last = capfd.readouterr().err.splitlines()
    assert first.startswith("the kernel adding was at its first run")
    assert last == "the kernel adding stayed within its arrays"
