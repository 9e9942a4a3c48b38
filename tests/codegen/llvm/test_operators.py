"""Python operators on vectors print instructions."""

from __future__ import annotations

from aiosearch.codegen.llvm.operators import VectorFunctionBody


def test_a_number_is_spread_over_all_lanes() -> None:
    body = VectorFunctionBody(4, fused=True)
    body.parameter("x", "i32") + 1
    assert body.writer.text == ["entry:", "  %v1 = add <4 x i32> %x, splat (i32 1)"]


def test_an_intrinsic_is_declared() -> None:
    body = VectorFunctionBody(4, fused=True)
    x = body.parameter("x", "float")
    body.fma(x, x, 1.0)
    (line,) = body.writer.declared
    kind = "<4 x float>"
    assert line == f"declare {kind} @llvm.fma.v4f32({kind}, {kind}, {kind})"


def test_equal_terms_are_printed_one_by_one() -> None:
    """As the formula has them: bounds of errors are those of this text."""
    body = VectorFunctionBody(1, fused=True)
    x = body.parameter("x", "float")
    (x * x) + (x * x)
    assert [line.split(" = ")[1] for line in body.writer.text[1:]] == [
        "fmul float %x, %x",
        "fmul float %x, %x",
        "fadd float %v1, %v2",
    ]
