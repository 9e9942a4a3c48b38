"""Sums of values that are known when the code runs."""

from __future__ import annotations

from aiosearch.codegen.llvm.builder import FunctionBuilder, LlvmValue
from aiosearch.codegen.llvm.linear import Linear, linear

A, B = (linear(LlvmValue(name, "i64")) for name in ("%a", "%b"))


def test_what_cancels_is_gone() -> None:
    """Nothing is computed for it."""
    assert A * 3 + B + 2 - (A * 3 + 1) == B + 1
    assert (A * 0).evaluate(FunctionBuilder()) == 0


def test_what_is_divisible_is_divided_now() -> None:
    """Without an instruction, whatever the values are."""
    writer = FunctionBuilder()
    assert (A * 8 + B * 4 + 7).divmod(4, writer) == (A * 2 + B + 1, Linear((), 3))
    assert len(writer.lines) == 1


def test_the_rest_is_divided_when_the_code_runs() -> None:
    """And only the rest."""
    writer = FunctionBuilder()
    quotient, left = (A * 8 + B + 3).divmod(4, writer)
    assert dict(quotient.terms)[A.terms[0][0]] == 2
    assert ["udiv" in line or "urem" in line for line in writer.lines[-2:]] == [True, True]
    assert len(left.terms) == 1


def test_divisible_whatever_the_values_are() -> None:
    """Each factor is, and the constant."""
    assert (A * 8 + 4).divisible(4)
    assert not (A * 8 + 2).divisible(4)
    assert not (A * 2 + 4).divisible(4)
