from __future__ import annotations

import random
from collections import Counter

import pytest
from right_programs import Case, cases

from aiosearch.equivalence import Status, verify
from aiosearch.equivalence.counterexample import CounterexampleKind
from aiosearch.equivalence.float_referee import FloatReferee
from aiosearch.tensor import Block, Program, apply, tensor
from aiosearch.testing.mutants import Change, Mutant, mutants

CASES = {case.name: case for case in cases()}
EACH = 2
"""Mutants of each program; the benchmark takes all."""


def sample(case: Case) -> list[Mutant]:
    """Some mutants, of different kinds where there are."""
    found = list(mutants(case.right))
    random.Random(case.name).shuffle(found)
    common = Counter(mutant.what for mutant in found)
    return sorted(found, key=lambda mutant: common[mutant.what])[:1] + found[: EACH - 1]


@pytest.mark.parametrize("name", CASES)
def test_verdicts_on_mutants(name: str) -> None:
    """None that differs is accepted; none that is equal is refuted, unless floats lose more."""
    case = CASES[name]
    referee = FloatReferee(case.original)
    for mutant in sample(case):
        differs = referee.differs(mutant.program)
        verdict = verify(case.original, mutant.program)
        about = f"{mutant.description}:\n{mutant.program}\n{verdict.summary()}"
        assert not (differs and verdict.status.accepted), about
        if differs is False and verdict.status is Status.REFUTED:
            shown = verdict.counterexample
            assert shown is None or shown.kind is not CounterexampleKind.VALUE, about


def test_every_change_is_made() -> None:
    """The sample holds every kind of change, on two hundred programs."""
    found = [mutant for case in CASES.values() for mutant in sample(case)]
    assert {mutant.what for mutant in found} == set(Change)
    assert len(found) >= 200


def test_mutants_are_well_typed_and_new() -> None:
    """Mutants take and give the same types, and no two of them are the same program."""
    for name in ("attention", "rms_norm: one_kernel_of_threads", "gated_mlp: two_outputs"):
        right = CASES[name].right
        found = [mutant.program for mutant in mutants(right)]
        assert len({right, *found}) == len(found) + 1
        for program in found:
            assert program.inputs == right.inputs
            assert [x.type for x in program.outputs] == [x.type for x in right.outputs]


def test_mutants_of_operators() -> None:
    """Operands are swapped and replaced, operators and axes exchanged, literals changed."""
    x, y = tensor("X", "f32", (2, 2)), tensor("Y", "f32", (2, 2))
    program = Program("p", (x, y), (x @ y * 2,))
    found = {mutant.program.outputs[0]: mutant.what for mutant in mutants(program)}
    assert found[y @ x * 2] is found[x @ x * 2] is found[x * 2] is Change.OPERAND
    assert found[(x + y) * 2] is found[x @ y - 2] is Change.OPERATOR
    assert found[x @ y * 4] is found[x @ y * -2] is found[x @ y * 0] is Change.LITERAL
    turned = Program("p", (x,), (apply("transpose", x, axes=(1, 0)),))
    (same,) = (mutant for mutant in mutants(turned) if mutant.what is Change.AXIS)
    assert same.description == "transpose: axes [1, 0] → [0, 1]"


def test_mutants_of_kernels() -> None:
    """Maps of inputs and outputs, the grid, the loop and the accumulator are changed one by one."""
    x, y = tensor("X", "f32", (4, 4)), tensor("Y", "f32", (4, 4))

    def kernel(
        grid: tuple[int, ...] = (2, 2),
        count: int = 1,
        own: tuple[int | None, ...] = (0, 1),
        kind: str = "none",
        stored: tuple[int, ...] = (0, 1),
    ) -> Program:
        block = Block(grid, count)
        tile = block.load(x, own) * block.load(y, (0, 1))
        return Program("p", (x, y), block.results((block.accumulate(tile, kind), stored)))

    found = {mutant.program: mutant.what for mutant in mutants(kernel())}
    assert found[kernel(own=(1, 0))] is found[kernel(stored=(1, 0))] is Change.MAP
    assert found[kernel(grid=(4, 2))] is found[kernel(count=2)] is Change.SIZE
    assert found[kernel(kind="max")] is Change.ACCUMULATOR
