"""Straight-line programs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosearch.workloads.bitvectors.instructions import OPERATORS
from aiosearch.workloads.bitvectors.programs import (
    Instruction,
    StraightLineProgram,
    constant,
    read_program,
)


@st.composite
def programs(draw: st.DrawFn) -> StraightLineProgram:
    code = []
    for given_values in range(4, 4 + draw(st.integers(1, 7))):
        operator = OPERATORS[draw(st.sampled_from(list(OPERATORS)))]
        operands = [draw(st.integers(0, given_values - 1)) for _ in range(operator.arity)]
        code.append(Instruction(operator.name, tuple(operands)))
    return StraightLineProgram(("x", "y"), (1, 7), tuple(code))


arguments = st.tuples(st.integers(0, 255), st.integers(0, 255))


@given(programs(), arguments)
def test_text_is_read_back(program: StraightLineProgram, values: tuple[int, ...]) -> None:
    """A program's text reads back as a program of the same text that computes the same."""
    again = read_program(program.text(), program.inputs, 8)
    assert again.text() == program.text()
    assert again.run(8, values) == program.run(8, values)


@given(programs(), arguments)
def test_normalising_keeps_the_meaning(
    program: StraightLineProgram, values: tuple[int, ...]
) -> None:
    """A normalised program computes the same in no more instructions, and stays as it is."""
    normalised = program.normalised()
    assert normalised.run(8, values) == program.run(8, values)
    assert len(normalised.code) <= len(program.code)
    assert normalised.normalised() == normalised


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sub x 1; and x t1", "sub x 1; and t1 x"),
        ("not x; add x 1; and t1 t2", "add x 1; not x; and t1 t2"),
        ("not x; sub t1 x", "not x; neg x; sub t1 x"),
        ("add x y; sub x y; or x y; and t1 t2; xor t3 t4", "or y x; sub x y; add y x;"
         "and t2 t3; xor t4 t1"),
    ],
)  # fmt: skip
def test_order_does_not_matter(one: str, other: str) -> None:
    """Programs that differ in the order of what commutes, or in dead code, normalise alike."""
    inputs = ("x", "y")
    assert (
        read_program(one, inputs, 8).normalised().text()
        == read_program(other, inputs, 8).normalised().text()
    )


def test_order_matters() -> None:
    """Operands that do not commute keep their places."""
    one, other = (read_program(text, ("x", "y"), 8) for text in ("sub x y", "sub y x"))
    assert one.normalised().text() != other.normalised().text()


@pytest.mark.parametrize(
    ("word", "width", "value"),
    [
        ("7", 8, 7),
        ("w-1", 32, 31),
        ("w/2", 16, 8),
        ("low", 16, 255),
        ("0x55", 16, 0x5555),
        ("0x0f", 32, 0x0F0F0F0F),
    ],
)
def test_constants(word: str, width: int, value: int) -> None:
    """A constant may depend on the width."""
    assert constant(word, width) == value


def test_terms_bind_every_instruction_once() -> None:
    """The SMT-LIB term of a program binds its instructions in order."""
    program = read_program("sub x 1; and x t1", ("x",), 8)
    assert program.term(8) == (
        "(let ((t1 (bvsub x (_ bv1 8)))) (let ((t2 (bvand x t1))) t2))"
    )  # fmt: skip
