"""Programs of kernels as lines of text."""

from __future__ import annotations

import base64
import zlib

import msgspec
import pytest
from testkit.kernels.llvm_texts import adding, source_of

from aiosearch.codegen.errors import NativeError
from aiosearch.codegen.native.compiler import OptimizationEffort
from aiosearch.codegen.native.embedded_source import (
    EmbeddedProgram,
    ProgramOrigin,
    decode_program,
    embedded_programs,
    encode_program,
)
from aiosearch.codegen.native.machine import host
from aiosearch.tensor.types import DType

NATIVE = adding(DType.F32, 5)
ORIGIN = ProgramOrigin("program", "kernel", ("one block",))


def test_what_is_written_is_read_back() -> None:
    """With what it was made of; the lines can stand in a string of Python as they are."""
    text = encode_program(NATIVE, host(), OptimizationEffort.NONE, ORIGIN)
    assert decode_program(text) == EmbeddedProgram(NATIVE, host(), OptimizationEffort.NONE, ORIGIN)
    assert not set(text) & {'"', "'", "\\"}
    assert max(map(len, text.splitlines())) <= 96


def test_lines_that_were_written_without_an_origin_are_read() -> None:
    """As those of earlier versions were."""
    packed = msgspec.msgpack.encode([NATIVE, host(), OptimizationEffort.SCALAR])
    text = base64.b85encode(zlib.compress(packed)).decode()
    assert decode_program(text) == EmbeddedProgram(NATIVE, host(), OptimizationEffort.SCALAR)


@pytest.mark.parametrize("text", ["", "abc", "~\n", base64.b85encode(zlib.compress(b"a")).decode()])
def test_damaged_lines_are_told(text: str) -> None:
    with pytest.raises(NativeError, match="damaged"):
        decode_program(text)


def test_a_modules_functions_are_found_without_running_it() -> None:
    source = source_of(NATIVE, "added")
    source += f'\n\ndef other(a):\n    return carried("""{encode_program(NATIVE, host())}""")(a)\n'
    assert [name for name, _ in embedded_programs(f"{source}\nraise SystemExit")] == [
        "added",
        "other",
    ]
    assert embedded_programs("def f(x): return x") == []
