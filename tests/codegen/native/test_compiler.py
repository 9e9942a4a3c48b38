"""From LLVM IR to object code."""

from __future__ import annotations

from dataclasses import replace

import pytest
from testkit.kernels.llvm_texts import adding

from aiosearch.codegen.errors import NativeError
from aiosearch.codegen.native.compiler import (
    OptimizationEffort,
    compile_handler,
    compile_program,
    digest,
    handler_digest,
)
from aiosearch.codegen.native.machine import host, portable
from aiosearch.tensor.types import DType

NATIVE = adding(DType.F32, 100)


@pytest.mark.parametrize("effort", OptimizationEffort)
def test_the_same_each_time(effort: OptimizationEffort) -> None:
    """Equal programs are compiled to equal bytes."""
    assert compile_program(NATIVE, host(), effort) == compile_program(NATIVE, host(), effort)


def test_what_a_digest_says() -> None:
    """Whatever the code depends on changes it; the size of a cache does not."""
    others = [
        digest(replace(NATIVE, text=f"{NATIVE.text}; more"), host()),
        digest(replace(NATIVE, temporaries=(4,)), host()),
        digest(adding(DType.F32, 101), host()),
        digest(NATIVE, portable(host())),
        digest(NATIVE, replace(host(), features="")),
        digest(NATIVE, host(), OptimizationEffort.NONE),
        handler_digest(host()),
        handler_digest(portable(host())),
        digest(NATIVE, host()),
    ]
    assert len(set(others)) == len(others)
    assert digest(NATIVE, replace(host(), l2=7)) == digest(NATIVE, host())


@pytest.mark.parametrize(
    ("old", "new"),
    [("add i64", "dad i64"), ("%i.next, %block", "%more, %block"), ("adding.0", "other.0")],
)
def test_wrong_text(old: str, new: str) -> None:
    """Text that is no LLVM IR, or breaks its rules, or lacks a phase, is an error and no crash."""
    wrong = replace(NATIVE, text=NATIVE.text.replace(old, new))
    with pytest.raises(NativeError, match=r"no LLVM IR|defines no function adding\.0"):
        compile_program(wrong, host())


def test_unknown_processors() -> None:
    """A kind of processor that LLVM knows nothing of is an error."""
    with pytest.raises(NativeError, match="LLVM cannot compile for abacus"):
        compile_program(NATIVE, replace(host(), triple="beads-on-wires", name="abacus"))


def test_the_handler_is_the_same_for_all() -> None:
    """It is compiled once for a processor."""
    assert compile_handler(host()) is compile_handler(host())
