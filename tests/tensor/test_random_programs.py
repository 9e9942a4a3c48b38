"""Ten thousand random programs: texts, files and evaluators hold for all of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from testkit.programs.random_programs import MOST_ELEMENTS, random_program

from aiosearch.tensor import ACCUMULATORS, OPERATORS, Floats, Program, evaluate, referee
from aiosearch.tensor.files import from_json, to_json
from aiosearch.tensor.text import parse, write

PARTS = 10
EACH = 400


@pytest.mark.parametrize("part", range(PARTS))
def test_texts_files_and_evaluators_hold(part: int) -> None:
    """What each is, is said next to it; drawing takes as long as either."""
    for seed in range(part * EACH, (part + 1) * EACH):
        program = random_program(seed)
        _comes_back(program)
        _agrees(seed, program)


def _comes_back(program: Program) -> None:
    """Printed and parsed, written and read, it has the same terms, name and inputs."""
    for found in (parse(write(program)), from_json(to_json(program))):
        assert found == program
        assert found.name == program.name


def _agrees(seed: int, program: Program) -> None:
    """All blocks at once, and one after the other: the same numbers, of the declared shape."""
    draw = np.random.default_rng(seed)
    inputs = [draw.integers(-8, 9, size=term.shape) / 4 for term in program.inputs]
    wanted = referee.run(program, inputs)
    with np.errstate(all="ignore"):
        found = evaluate(program, Floats(), inputs)
    for term, ours, theirs in zip(program.outputs, found, wanted, strict=True):
        assert ours.shape == theirs.shape == term.shape, seed
        same = np.isclose(ours, theirs, rtol=1e-9, atol=1e-12, equal_nan=True)
        assert same.all(), f"seed {seed}\n{program}"


def test_a_seed_names_its_program() -> None:
    """The same at every call."""
    assert str(random_program(7)) == str(random_program(7))


def test_random_programs_have_everything() -> None:
    """Every operator and accumulator, several outputs, and axes of size one and zero."""
    programs = [random_program(seed) for seed in range(1500)]
    terms = [term for program in programs for term in program.terms()]
    used = Counter(term.operator.name for term in terms)
    assert used.keys() == OPERATORS.keys()
    kinds = {term.parameter("kind") for term in terms if term.operator.name == "accumulate"}
    assert kinds == ACCUMULATORS.keys()
    assert {0, 1} <= {size for term in terms for size in term.shape}
    assert any(len(program.outputs) > 2 for program in programs)
    assert max(np.prod(term.shape) for program in programs for term in program.inputs) <= (
        MOST_ELEMENTS
    )
