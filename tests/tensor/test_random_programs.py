"""Ten thousand random programs: texts, files and evaluators hold for all of them."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest
from random_programs import MOST_ELEMENTS, random_program

from aiosearch.tensor import ACCUMULATORS, OPERATORS, Floats, Program, evaluate, referee
from aiosearch.tensor.files import from_json, to_json
from aiosearch.tensor.text import parse, write

PARTS = 10
EACH = 1000


@cache
def _part(part: int) -> list[tuple[int, Program]]:
    return [(seed, random_program(seed)) for seed in range(part * EACH, (part + 1) * EACH)]


@pytest.mark.parametrize("part", range(PARTS))
def test_texts_and_files_give_back_the_same_program(part: int) -> None:
    """Print and parse, write and read: the same terms, name and inputs."""
    for _, program in _part(part):
        for found in (parse(write(program)), from_json(to_json(program))):
            assert found == program
            assert found.name == program.name


@pytest.mark.parametrize("part", range(PARTS))
def test_evaluating_all_blocks_at_once_agrees_with_the_referee(part: int) -> None:
    """One block after the other or all together: the same numbers, of the declared shape."""
    for seed, program in _part(part):
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
