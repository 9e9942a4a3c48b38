"""Programs about their own rounding are told from programs about numbers."""

from __future__ import annotations

import pytest
from testkit.programs.float_pairs import over

from aiosearch.equivalence import Status, verify
from aiosearch.equivalence.finite_field.rounding_residues import residue
from aiosearch.tensor import Program, Term, apply, tensor

A = tensor("A", "f32", (6, 4))
B = tensor("B", "f32", (6, 4))


def error_of_a_sum() -> Program:
    total = A + B
    rest = total - A
    return over(A, B)(total, (A - (total - rest)) + (B - rest))


def split() -> Program:
    scaled = A * 4097.0
    high = scaled - (scaled - A)
    return over(A)(high, A - high)


def compensated() -> Program:
    total, lost = _row(0), _row(1) * 0.0
    for number in range(1, 6):
        wanted = _row(number) - lost
        new = total + wanted
        total, lost = new, (new - total) - wanted
    return over(A)(total)


def _row(number: int) -> Term:
    return apply("slice", A, axis=0, start=number, stop=number + 1)


@pytest.mark.parametrize("made", [error_of_a_sum, split, compensated])
def test_what_is_kept_of_rounding_is_seen_and_nothing_may_stand_in_for_it(made: object) -> None:
    program: Program = made()  # type: ignore[operator]
    assert residue(program, seed=0) is not None
    erased = Program("erased", program.inputs, tuple(one * 1.0 for one in program.outputs))
    verdict = verify(program, erased, seed=0)
    assert verdict.status is Status.CANNOT_JUDGE
    assert "computes with its own rounding errors" in verdict.reason
    assert verify(program, program, seed=0).status is Status.PROVED


def test_a_number_rounded_by_adding_a_large_one_is_decided_by_rounding() -> None:
    large = 1.5 * 2.0**23
    verdict = verify(over(A)((A + large) - large), over(A)(A), seed=0)
    assert verdict.status is Status.CANNOT_JUDGE
    assert "rounding decides" in verdict.reason


@pytest.mark.parametrize(
    "program",
    [
        over(A, B)((A + B) - A * 2),
        over(A)(A - apply("mean", A, axes=(1,), keep=True)),
        over(A)(apply("exp", A - apply("max", A, axes=(1,), keep=True))),
        over(A, B)((A * B) - (B * A) * 0.5),
        over(A)(A * 0.0),
        over(A)(apply("exp", A + (-A))),
        over(A)(apply("exp", A - A)),
        over(A)(apply("sqrt", apply("mean", A * A, axes=(1,), keep=True))),
    ],
)
def test_programs_about_numbers_have_none(program: Program) -> None:
    assert residue(program, seed=0) is None
