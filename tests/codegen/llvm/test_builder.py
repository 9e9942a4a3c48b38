"""Loops as text."""

from __future__ import annotations

import math

import pytest

from aiosearch.codegen.llvm.builder import FunctionBuilder, LlvmInteger, literal


def nested(writer: FunctionBuilder, depth: int) -> None:
    """Loops in one another, each of ten turns."""

    def body(at: LlvmInteger) -> None:
        writer.add(at, 7)
        if depth > 1:
            nested(writer, depth - 1)

    writer.repeat(0, 10, body)


def hidden(writer: FunctionBuilder) -> int:
    """Of how many loops LLVM cannot see the number."""
    return sum("asm" in line for line in writer.text)


def test_two_loops_in_one_another_show_their_numbers() -> None:
    """LLVM makes addresses of them that take fewer instructions."""
    writer = FunctionBuilder()
    nested(writer, 2)
    assert hidden(writer) == 0


def test_loops_further_out_hide_theirs() -> None:
    """All but the two innermost ones; the body has the number from what hides it."""
    writer = FunctionBuilder()
    nested(writer, 4)
    assert hidden(writer) == 2
    first = next(line for line in writer.text if "asm" in line)
    name = first.partition(" = ")[0].strip()
    assert any(line.endswith(f"= add nsw i64 {name}, 7") for line in writer.text)


def test_the_deepest_of_what_lies_beside_counts() -> None:
    """A loop of two levels before one of a single level makes what holds both far out."""
    writer = FunctionBuilder()

    def body(_: LlvmInteger) -> None:
        nested(writer, 2)
        nested(writer, 1)

    writer.repeat(0, 10, body)
    assert hidden(writer) == 1
    nested(writer, 1)
    assert hidden(writer) == 1


@pytest.mark.parametrize(
    ("value", "element", "text"),
    [
        (1.0, "double", "0x3FF0000000000000"),
        (0.1, "float", "0x3FB99999A0000000"),
        (-math.inf, "float", "0xFFF0000000000000"),
        (-1e300, "float", "0xFFF0000000000000"),
        (-3, "i32", "-3"),
        (1, "i1", "true"),
        (1.5, "half", "0xH3E00"),
        (1e9, "half", "0xH7C00"),
    ],
)
def test_literals(value: float, element: str, text: str) -> None:
    assert literal(value, element) == text
