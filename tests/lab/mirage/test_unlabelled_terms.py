from __future__ import annotations

from functools import cache

import pytest

from aiosearch.lab.mirage.unlabelled_terms import UnlabelledTerms, without_sizes
from aiosearch.superoptimizer.derive.derivations import DerivationGraph
from aiosearch.superoptimizer.enumeration.problem import Fusion
from aiosearch.tensor.abstract import Abstract
from aiosearch.tensor.files import to_json
from aiosearch.tensor.programs import builtin
from aiosearch.tensor.text import parse

SIZES = {
    "rms_norm": {"row": 4, "feature": 8, "column": 6},
    "lora": {"row": 4, "feature": 8, "rank": 2, "column": 6},
    "gqa": {"row": 4, "feature": 8, "key": 6, "value": 10},
}


@cache
def tables(name: str) -> DerivationGraph:
    return Fusion(to_json(builtin(name, **SIZES[name]))).tables


def leaves(term: Abstract) -> set[str]:
    return set().union(*map(leaves, term.arguments)) if term.arguments else {str(term)}


@pytest.mark.parametrize("name", SIZES)
def test_every_class_has_a_term_over_what_its_values_are_made_of(name: str) -> None:
    """The output is of all inputs, and what a kernel loads or stores is what it was."""
    found = UnlabelledTerms(tables(name))
    inputs = {one.parameter("name") for one in tables(name).reference.program.inputs}
    (target,) = tables(name).targets
    assert target is not None
    assert len(found.terms) == len(tables(name).classes)
    assert inputs <= leaves(found.terms[target])
    for number, steps in enumerate(tables(name).steps):
        if steps and steps[0].operator in ("load", "store"):
            assert found.terms[number] is found.terms[steps[0].operands[0]]
    assert {str(found.terms[one]) for one in tables(name).inputs} == inputs


def test_terms_are_read_without_sizes_and_means_as_sums() -> None:
    (target,) = UnlabelledTerms(tables("rms_norm")).targets
    assert without_sizes(target) == "sum((X / sqrt(sum(X·X)))·W)"


def test_a_sum_over_a_part_of_an_index_is_smaller_than_the_whole_sum() -> None:
    """Each of the four parts counts the size of the label, so that the whole is their product."""
    found = UnlabelledTerms(tables("rms_norm")).terms
    sums = {term.size for term in found if without_sizes(term) == "sum(X·W)"}
    assert 8**4 in sums
    assert sums <= {8, 8**2, 8**3, 8**4}


def test_views_and_numbers_of_the_reference_are_there() -> None:
    program = parse(
        """
        program shifted(X: f32[row=4, column=6], b: f32[column=6]) {
          a = reshape(b, shape=[1, 6])
          c = add(X, a)
          d = mul(c, 0.5)
          return d
        }
        """
    )
    found = UnlabelledTerms(Fusion(to_json(program)).tables)
    (target,) = found.targets
    assert without_sizes(target) == "((X + b)·1/2)"
    assert {"X", "b", "(X + b)"} <= set(map(without_sizes, found.terms))
