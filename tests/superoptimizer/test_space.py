from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from testkit.superoptimizer.kernel_graphs import fusion

from aiosearch.superoptimizer.derive.derivations import Scope
from aiosearch.superoptimizer.space import RANGES, Space
from aiosearch.tensor.operator import OPERATORS
from aiosearch.tensor.programs import builtin


def test_a_space_says_all_that_bounds_it() -> None:
    """Each limit and each list shows in what it prints; so a change of one changes the lines."""
    lines = dict(Space().lines())
    for field in fields(Space):
        value: Any = getattr(Space(), field.name)
        changed: Any = value + 1 if isinstance(value, int) else value[:-1]
        assert dict(replace(Space(), **{field.name: changed}).lines()) != lines


def test_no_line_is_empty_or_there_twice() -> None:
    """What there is, and how much of it."""
    lines = list(Space().lines())
    assert len(dict(lines)) == len(lines)
    assert all(what and how for what, how in lines)


def test_the_defaults_are_at_least_those_of_mirage() -> None:
    """Its operators of a block and of kernels, both levels' limits, its accumulators."""
    space = Space()
    assert space.block_operators >= 9
    assert space.kernels + space.block_inputs >= 5
    assert {"matmul", "exp", "silu", "add", "mul", "div", "rms_norm", "sqrt"} <= {*space.tile}
    assert {"none", "sum", "mean", "rms", "redtox"} <= {*space.accumulators}
    assert {*space.tile, *space.kernel} <= OPERATORS.keys()


@pytest.mark.parametrize("limit", RANGES)
@pytest.mark.parametrize("value", [-1, 65, 10**9])
def test_a_limit_has_a_range(limit: str, value: int) -> None:
    """Beyond it the message says which limit it is, and what it may be."""
    with pytest.raises(ValueError, match=rf"{limit} is \d to 64, not {value}"):
        Space(**{limit: value})


def test_every_limit_has_a_range() -> None:
    """All that is a number in a space."""
    assert {field.name for field in fields(Space) if field.type == "int"} == set(RANGES)


def test_kernels_have_the_operators_that_the_space_says() -> None:
    """Blocks may have others."""
    tables = fusion(builtin("rms_norm"), Space(kernel=("matmul",))).tables
    outside = {
        step.operator
        for own, steps in zip(tables.classes, tables.steps, strict=True)
        for step in steps
        if own.zone is Scope.DEVICE
    }
    assert outside <= {"matmul", "store", "rms_norm"}
