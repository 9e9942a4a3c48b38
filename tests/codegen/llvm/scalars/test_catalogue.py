"""Functions go into modules by name, each once."""

from __future__ import annotations

import re

import pytest

from aiosearch.codegen.ir import Operation
from aiosearch.codegen.llvm.scalars import Conversion, definition, library, symbol
from aiosearch.codegen.llvm.scalars.catalogue import FunctionRequest
from aiosearch.tensor.types import DType

SEVERAL: list[FunctionRequest] = [
    (Operation.EXP, 16, DType.F32),
    (Operation.SIN, 8, DType.F32),
    (Operation.COS, 8, DType.F32),
    (Operation.SIN, 1, DType.F64),
    (Conversion.NARROW, 4, DType.BF16),
]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ((Operation.EXP, 16, DType.F32), "@aio.exp.v16f32"),
        ((Operation.POW, 1, DType.F64), "@aio.pow.f64"),
        ((Conversion.WIDEN, 8, DType.BF16), "@aio.widen.v8bf16"),
    ],
)
def test_a_symbol_says_what_it_is(wanted: FunctionRequest, expected: str) -> None:
    name, text = definition(*wanted)
    assert name == symbol(*wanted) == expected
    assert f"{expected}(" in text


def test_a_library_has_everything_once() -> None:
    """What two functions call, too."""
    text = library([*SEVERAL, *SEVERAL])
    named = re.findall(r"^(?:define|declare).*?(@[\w.]+)\(", text, re.MULTILINE)
    assert len(named) == len(set(named))
    assert {symbol(*one) for one in SEVERAL} < set(named)
    assert text.count("@aio.two_over_pi =") == 1


def test_a_library_does_not_depend_on_the_order() -> None:
    assert library(SEVERAL) == library(reversed(SEVERAL))


def test_a_machine_without_extensions_gets_no_fused_instruction() -> None:
    """LLVM would call a library for it."""
    assert "llvm.fma" in library(SEVERAL)
    assert "llvm.fma" not in library(SEVERAL, fused=False)
