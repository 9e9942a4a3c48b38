from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from operator import or_

import numpy as np
import pytest
from testkit.superoptimizer.labelled_expressions import LABELS, SIZES, Array, Expr, draw, worth

from aiosearch.superoptimizer.algebra.program_reader import read
from aiosearch.superoptimizer.derive.derivations import (
    Derivation,
    DerivationGraph,
    Scope,
    ValueClass,
)
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import DType, Program, apply, tensor
from aiosearch.tensor.programs import BUILTINS, builtin

TILE = ("exp", "square", "sqrt", "silu", "add", "mul", "div", "matmul", "rms_norm", "sum")
NAMES = ("rms_norm", "gated_mlp", "lora", "gqa")


@cache
def tables(name: str) -> DerivationGraph:
    """Those of a program whose labels have the sizes that index parts have in tests."""
    sizes = dict(zip(BUILTINS[name].sizes, SIZES, strict=False))
    return DerivationGraph(read(builtin(name, **sizes)), Space(tile=TILE))


@pytest.mark.parametrize("name", NAMES)
def test_every_way_to_a_class_gives_its_values(name: str) -> None:
    """What the steps compute over all index parts is one and the same."""
    found = tables(name)
    values = _inputs(found)
    left = [(number, step) for number, steps in enumerate(found.steps) for step in steps]
    count = len(left)
    while left:
        later = []
        for number, step in left:
            if not all(operand in values for operand in step.operands):
                later.append((number, step))
                continue
            made = _computed(found, step, values)
            one, two = np.broadcast_arrays(values.setdefault(number, made), made)
            np.testing.assert_allclose(one, two)
        assert len(later) < len(left)
        left = later
    assert len(values) == len(found.classes) < count


def _inputs(found: DerivationGraph) -> dict[int, Array]:
    generator = np.random.default_rng(0)
    masks = (found.forms.free(found.classes[number].form) for number in found.inputs)
    inputs = (draw(("input", "", mask), generator, low=0.1) for mask in masks)
    return dict(zip(found.inputs, inputs, strict=True))


def _computed(found: DerivationGraph, step: Derivation, values: Mapping[int, Array]) -> Array:
    given = [values[operand] for operand in step.operands]
    names: list[Expr] = [("input", str(place), 0) for place in range(len(given))]
    expr = _meaning(step, names, [found.classes[operand] for operand in step.operands])
    return worth(expr, {str(place): value for place, value in enumerate(given)})


def _meaning(step: Derivation, of: list[Expr], classes: list[ValueClass]) -> Expr:
    """What an operator of the language does, said for all index parts."""
    first, axes = of[0], classes[0].axes
    last: int = sum(axes[-1])
    if step.operator in ("load", "store"):
        return first
    if step.operator == "accumulate":
        return _accumulated(step.detail, first, classes[0])
    if step.operator == "square":
        return ("mul", first, first)
    if step.operator == "rms_norm":
        return ("div", first, _rms(first, last))
    if step.operator == "sum":
        return ("sum", sum(axes[int(step.detail)]), first)
    if step.operator == "fold":
        return ("sum", axes[int(step.detail)][0], first)
    if step.operator == "matmul":
        return ("sum", last, ("mul", *of))
    return (step.operator, *of)


def _accumulated(kind: str, tile: Expr, own: ValueClass) -> Expr:
    last: int = sum(own.axes[-1])
    if kind == "none":
        return ("sum", own.loop, tile)
    if kind == "redtox":
        return ("sum", own.loop | own.axes[-1][0], tile)
    if kind == "mean":
        return _mean(tile, own.loop | last)
    return _rms(tile, own.loop | last) if kind == "rms" else ("sum", own.loop | last, tile)


def _mean(expr: Expr, mask: int) -> Expr:
    return ("div", ("sum", mask, expr), ("size", mask))


def _rms(expr: Expr, mask: int) -> Expr:
    return ("sqrt", _mean(("mul", expr, expr), mask))


@pytest.mark.parametrize("name", NAMES)
def test_every_class_is_a_part_of_the_reference(name: str) -> None:
    """It comes up once, lies along what it depends on, and some step leads to it."""
    found = tables(name)
    assert len(set(found.classes)) == len(found.classes)
    for number, own in enumerate(found.classes):
        along = reduce(or_, (piece for axis in own.axes for piece in axis), 0)
        assert own.form in found.parts
        assert found.forms.free(own.form) & ~(along | own.grid | own.loop) == 0
        assert found.steps[number] or number in found.given
        assert len(set(found.steps[number])) == len(found.steps[number])


@pytest.mark.parametrize("name", NAMES)
def test_steps_stay_within_a_block_or_on_the_device(name: str) -> None:
    """Only loads, accumulators and stores lead from one zone to the next."""
    found = tables(name)
    leads = {"load": Scope.DEVICE, "accumulate": Scope.LOOP}
    for number, own in enumerate(found.classes):
        for step in found.steps[number]:
            zones = {found.classes[operand].zone for operand in step.operands}
            if step.operator == "store":
                assert zones <= {Scope.STILL, Scope.AFTER}
                assert own.zone is Scope.DEVICE
            else:
                assert zones == {leads.get(step.operator, own.zone)}


def test_what_is_no_part_is_counted() -> None:
    """With the reason for which it was not taken."""
    pruned = tables("rms_norm").pruned
    assert pruned["no part of the reference"] > 0
    assert all(count > 0 for count in pruned.values())


@pytest.mark.parametrize("name", ["attention", "ntrans"])
def test_nothing_lies_along_an_index_that_is_walked(name: str) -> None:
    """Whatever met in it: a block has one place of the grid and of the loop at a time."""
    for own in tables(name).classes:
        along = reduce(or_, (piece for axis in own.axes for piece in axis), 0)
        assert not (own.grid | own.loop) & along


def test_what_meets_itself_does_so_once() -> None:
    """Divided by itself, either way round is the same step."""
    x = tensor("X", DType.F32, (16, 64))
    program = Program("ratio", (x,), (apply("add", x, apply("div", x, x)),))
    found = DerivationGraph(read(program), Space(tile=TILE))
    assert any(step.operator == "div" for steps in found.steps for step in steps)
    assert all(len(set(steps)) == len(steps) for steps in found.steps)


def test_loops_split_only_what_is_summed_over() -> None:
    """Anything else could not be put together again; a grid splits whatever there is."""
    own = tables("rms_norm").classes
    row, feature, column, *_ = LABELS
    loops, walked = (
        reduce(or_, masks) for masks in zip(*((c.loop, c.grid) for c in own), strict=True)
    )
    assert loops & ~feature == 0 < loops
    assert all(walked & label for label in (row, feature, column))


def test_operators_that_a_space_lacks_are_not_used() -> None:
    """Nor accumulators."""
    space = Space(tile=("matmul", "div"), accumulators=("none", "rms"))
    found = DerivationGraph(read(builtin("rms_norm")), space)
    names = {(step.operator, step.detail) for steps in found.steps for step in steps}
    kinds = {detail for operator, detail in names if operator == "accumulate"}
    assert kinds == {"none", "rms"}
    assert {operator for operator, _ in names} <= {
        "load", "store", "accumulate", "fold", "matmul", "div",
    }  # fmt: skip
