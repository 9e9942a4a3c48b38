from __future__ import annotations

from testkit.programs.random_programs import random_program

from aiosearch.optimizer.algebra import estimate, searchable
from aiosearch.optimizer.algebra.enumeration import MOST_LEAVES, ProgramValues, RecomputationTarget
from aiosearch.optimizer.algebra.fingerprints import Fingerprints
from aiosearch.tensor import Program, apply, literal, tensor
from aiosearch.tensor.terms import walk

N = 256
A, B = tensor("a", "f32", (N, N)), tensor("b", "f32", (N, N))


def targets(program: Program, constant: tuple[int, ...] = ()) -> list[RecomputationTarget]:
    return ProgramValues(program, constant, Fingerprints()).targets()


def test_what_saves_most_comes_first() -> None:
    """Inputs, numbers and moves of elements are no targets."""
    product = A @ B
    turned = apply("transpose", product, axes=(1, 0))
    program = Program("one", (A, B), (apply("exp", turned) + literal(1),))
    found = targets(program)
    assert [one.term.operator.name for one in found] == ["add", "exp", "matmul"]
    assert [one.spare for one in found] == sorted((one.spare for one in found), reverse=True)


def test_leaves_are_what_is_below_and_what_is_there_anyhow() -> None:
    """Never what depends on the target, and of equal values one."""
    product, other = A @ B, apply("tanh", A)
    outputs = (apply("exp", product), other * A)
    found = {one.term: one for one in targets(Program("two", (A, B), outputs))}
    assert {one.term for one in found[product].leaves} == {A, B}
    assert outputs[0] not in {leaf.term for one in found.values() for leaf in one.leaves}
    assert other in {leaf.term for leaf in found[outputs[1]].leaves}


def test_what_is_there_twice_is_known() -> None:
    """A value that is computed in two ways has the other for its equal."""
    again = apply("transpose", B, axes=(1, 0)) @ apply("transpose", A, axes=(1, 0))
    program = Program("twice", (A, B), (A @ B, again))
    same = {one.term: one.same and one.same.term for one in targets(program)}
    assert same == {A @ B: again, again: A @ B}


def test_large_programs_give_few_leaves() -> None:
    """The nearest ones, among them inputs."""
    x = A
    for number in range(2, 40):
        x = apply("tanh", x * literal(number)) + B
    first, *_ = targets(Program("long", (A, B), (x,)))
    assert len(first.leaves) == MOST_LEAVES
    assert {A, B} & {one.term for one in first.leaves}


def test_the_least_is_no_more_than_the_estimate() -> None:
    """Of whole programs at random: what each term takes at least is in the estimate."""
    for seed in range(60):
        program = random_program(seed, kernels=False)
        if searchable(program):
            parts = ProgramValues(program, (), Fingerprints())
            assert sum(parts.work(*program.outputs).values()) <= estimate(program) + 1e-9


def test_constant_inputs_cost_nothing() -> None:
    """Nor does what is computed from them alone."""
    program = Program("one", (A, B), (A @ (B + literal(1)),))
    parts = ProgramValues(program, (1,), Fingerprints())
    (total,) = program.outputs
    assert {term for term, cost in parts.work(total).items() if cost} == {total}
    assert [one.term for one in parts.targets()] == [total]


def test_values_of_a_target_are_terms_of_the_program() -> None:
    """Without their axes of size one."""
    row = tensor("r", "f32", (1, N))
    program = Program("row", (A, row), (A * row,))
    (target,) = targets(program)
    below = set(walk(program.outputs))
    assert {one.term for one in target.leaves} == {A, apply("reshape", row, shape=(N,))}
    assert target.term in below
