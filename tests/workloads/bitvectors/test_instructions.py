"""The instruction set."""

from __future__ import annotations

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from aiosearch.workloads.bitvectors.instructions import OPERATORS, WordOperator, literal

operators = st.sampled_from(list(OPERATORS.values()))
widths = st.sampled_from([8, 16, 32])


def words(width: int) -> st.SearchStrategy[int]:
    edges = [0, 1, 2, width - 1, width, (1 << width - 1) - 1, 1 << width - 1, (1 << width) - 1]
    return st.sampled_from(edges) | st.integers(0, (1 << width) - 1)


def by_z3(operator: WordOperator, width: int, a: int, b: int) -> int:
    term = operator.term(width, literal(a, width), literal(b, width))
    (equation,) = z3.parse_smt2_string(
        f"(declare-const r (_ BitVec {width})) (assert (distinct r {term}))"
    )
    value = z3.simplify(equation.arg(0).arg(1) if z3.is_not(equation) else equation.arg(1))
    return int(value.as_long())


@settings(max_examples=400)
@given(operators, widths, st.data())
def test_both_meanings(operator: WordOperator, width: int, data: st.DataObject) -> None:
    """An operator means to Python what it means to z3, and its result is a word of the width."""
    a, b = data.draw(words(width)), data.draw(words(width))
    result = operator.meaning(width)(a, b)
    assert 0 <= result < 1 << width
    assert result == by_z3(operator, width, a, b)


@pytest.mark.parametrize("name", OPERATORS)
def test_commutative(name: str) -> None:
    """Exactly the operators declared commutative give the same with their operands exchanged."""
    operator = OPERATORS[name]
    run = operator.meaning(8)
    pairs = [(a, b) for a in range(0, 256, 5) for b in range(0, 256, 3)]
    commutes = all(run(a, b) == run(b, a) for a, b in pairs)
    assert commutes == operator.commutative


@pytest.mark.parametrize("name", OPERATORS)
def test_arity(name: str) -> None:
    """Exactly the unary operators ignore their second operand."""
    operator = OPERATORS[name]
    run = operator.meaning(8)
    ignores = all(run(a, b) == run(a, 0) for a in range(256) for b in range(0, 256, 3))
    assert ignores == (operator.arity == 1) == ("{b}" not in operator.smt)
