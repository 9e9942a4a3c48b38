"""Numbers as LLVM reads them."""

from __future__ import annotations

import math

import pytest

from aiosearch.codegen.llvm.operators import OperatorValue, VectorFunctionBody, literal


@pytest.mark.parametrize(
    ("value", "element", "text"),
    [
        (1.0, "double", "0x3FF0000000000000"),
        (0.1, "float", "0x3FB99999A0000000"),
        (-math.inf, "float", "0xFFF0000000000000"),
        (-1e300, "float", "0xFFF0000000000000"),
        (-3, "i32", "-3"),
        (1, "i1", "true"),
    ],
)
def test_literals(value: float, element: str, text: str) -> None:
    assert literal(value, element) == text


def test_a_number_is_spread_over_all_lanes() -> None:
    body = VectorFunctionBody(4, fused=True)
    OperatorValue(body, "i32", "%x") + 1
    assert body.lines == ["  %v0 = add <4 x i32> %x, splat (i32 1)"]


def test_an_intrinsic_is_declared() -> None:
    body = VectorFunctionBody(4, fused=True)
    x = OperatorValue(body, "float", "%x")
    body.fma(x, x, 1.0)
    (line,) = body.declarations
    kind = "<4 x float>"
    assert line == f"declare {kind} @llvm.fma.v4f32({kind}, {kind}, {kind})"
