from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pytest
from testkit.superoptimizer.forward_blocks import Forward, Source, Way
from testkit.superoptimizer.forward_graphs import (
    Grow,
    Term,
    binary,
    either,
    leaf,
    sets,
    term,
    unary,
)
from testkit.superoptimizer.labelled_expressions import LABELS, SIZES, Expr, form

from aiosearch.superoptimizer.algebra.normal_form import BITS, Mask
from aiosearch.superoptimizer.algebra.program_reader import read
from aiosearch.superoptimizer.derive.derivations import DerivationGraph, Scope
from aiosearch.superoptimizer.enumeration.block_graphs import BlockGraphs, DerivedBlockGraph
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import Program, apply, tensor
from aiosearch.tensor import Term as Tensor
from aiosearch.tensor.programs import builtin

TILE = ("exp", "square", "sqrt", "add", "sub", "mul", "div", "matmul", "sum")
KINDS = ("none", "sum", "mean", "rms")

ROW, FEATURE, COLUMN, VALUE, _ = LABELS
NAMES = ("row", "feature", "column", "value")


@dataclass(frozen=True)
class Case:
    """A reference, said twice."""

    sources: tuple[Source, ...]
    expr: Expr
    program: Program
    axes: tuple[int, ...]
    operators: int
    tile: tuple[str, ...] = TILE

    @cached_property
    def space(self) -> Space:
        return Space(block_operators=self.operators, tile=self.tile, accumulators=KINDS)

    @cached_property
    def tables(self) -> DerivationGraph:
        return DerivationGraph(read(self.program), self.space)

    def forward(self, prune: bool, dedupe: bool = True) -> list[tuple[Way, Term]]:
        parts, forms = self.tables.parts, self.tables.forms
        if not prune:
            made = Forward(self.sources, self.space, dedupe=dedupe)
        else:
            made = Forward(
                self.sources, self.space, lambda expr: form(forms, expr) in parts, dedupe=dedupe
            )
        return list(made.equal(self.expr, self.axes))

    def backward(self) -> list[tuple[Way, Term]]:
        """What is read off the tables."""
        (target,) = self.tables.targets
        assert target is not None
        blocks = BlockGraphs(self.tables)
        return [
            self._said(graph)
            for step in self.tables.steps[target]
            if step.operator == "store"
            for graph in blocks.graphs(step.operands, tuple(sorted(self.tables.inputs)))
        ]

    def _said(self, graph: DerivedBlockGraph) -> tuple[Way, Term]:
        made: dict[int, Term] = {}
        splits: dict[str, tuple[frozenset[int], int | None]] = {}
        for number, step in graph.steps:
            own = self.tables.classes[number]
            if step.operator == "load":
                name = self.sources[self.tables.inputs.index(step.operands[0])].name
                made[number] = leaf(name)
                splits[name] = (_labels(own.grid), max(_labels(own.loop), default=None))
            else:
                detail = f" {step.detail}" if step.operator == "accumulate" else ""
                operands = (made[operand] for operand in step.operands)
                made[number] = term(step.operator + detail, *operands)
        ways = [splits[source.name] for source in self.sources]
        grids, loops = tuple(way[0] for way in ways), tuple(way[1] for way in ways)
        return Way(grids, loops), made[graph.outputs[0]]


def _labels(mask: Mask) -> frozenset[int]:
    return frozenset(bit // BITS for bit in range(mask.bit_length()) if mask >> bit & 1)


def _input(source: Source) -> Tensor:
    labels = tuple(NAMES[label] for label in source.labels)
    return tensor(source.name, "f16", tuple(SIZES[label] for label in source.labels), labels)


def _dot(mask: Mask, one: Expr, two: Expr) -> Expr:
    return ("sum", mask, ("mul", one, two))


def _mean(expr: Expr) -> Expr:
    return ("div", ("sum", FEATURE, expr), ("size", FEATURE))


def _program(*outputs: Tensor, inputs: Sequence[Tensor]) -> Program:
    return Program("case", tuple(inputs), outputs)


_SOURCES = (Source("X", (0, 1)), Source("W", (1, 2)), Source("V", (2, 3)), Source("Y", (0, 2)))
_X, _W, _V, _Y = _SOURCES
_x, _w, _v, _y = map(_input, _SOURCES)
_XW = _dot(FEATURE, _X.expr, _W.expr)
_E, _e = ("exp", _X.expr), apply("exp", _x)
_RMS = ("sqrt", _mean(("mul", _X.expr, _X.expr)))


def _along(name: str, x: Tensor) -> Tensor:
    return apply(name, x, axes=(1,), keep=True)


CASES = {
    "product": Case((_X, _W), _XW, _program(_x @ _w, inputs=(_x, _w)), (0, 2), 5),
    "norm": Case(
        (_X, _W),
        _dot(FEATURE, ("div", _X.expr, _RMS), _W.expr),
        _program(apply("rms_norm", _x) @ _w, inputs=(_x, _w)),
        (0, 2),
        7,
    ),
    "softmax": Case(
        (_X,),
        ("div", _E, ("sum", FEATURE, _E)),
        _program(_e / _along("sum", _e), inputs=(_x,)),
        (0, 1),
        6,
    ),
    "sum": Case(
        (_X, _W, _Y), ("add", _XW, _Y.expr), _program(_x @ _w + _y, inputs=(_x, _w, _y)), (0, 2), 6
    ),
    "chain": Case(
        (_X, _W, _V),
        _dot(COLUMN, _XW, _V.expr),
        _program(_x @ _w @ _v, inputs=(_x, _w, _v)),
        (0, 3),
        6,
    ),
    "gate": Case(
        (_X, _W, _Y),
        ("mul", ("exp", _XW), _Y.expr),
        _program(apply("exp", _x @ _w) * _y, inputs=(_x, _w, _y)),
        (0, 2),
        7,
    ),
    "mean": Case(
        (_X, _W),
        ("mul", _mean(_X.expr), _XW),
        _program(_along("mean", _x) * (_x @ _w), inputs=(_x, _w)),
        (0, 2),
        6,
    ),
}


@pytest.mark.parametrize(
    ("operators", "inputs", "most", "graphs"),
    [
        (either(unary("exp"), binary("matmul")), 2, 4, (6, 51, 608, 9_588)),
        (either(unary("exp"), binary("matmul")), 3, 4, (12, 162, 2_704, 55_353)),
        (either(unary("exp"), binary("matmul", "div")), 2, 4, (10, 155, 3_490, 105_715)),
        (either(unary("exp"), binary("matmul", "div")), 3, 3, (21, 525, 16_660)),
        (either(unary("exp"), binary("matmul", "add", "div")), 2, 3, (13, 260, 7_501)),
        (either(unary("exp"), binary("matmul", "add", "div")), 3, 3, (27, 864, 34_947)),
    ],
)
def test_going_forwards_misses_no_graph_and_makes_none_twice(
    operators: Grow, inputs: int, most: int, graphs: tuple[int, ...]
) -> None:
    """With nothing saved there are as many as brute force counted."""
    leaves = [leaf(str(number)) for number in range(inputs)]
    found = list(sets(leaves, most, operators))
    assert len(set(map(frozenset, found))) == len(found)
    assert tuple(sum(len(one) == size + 1 for one in found) for size in range(most)) == graphs


@pytest.mark.parametrize("name", CASES)
def test_the_tables_hold_what_going_forwards_finds(name: str) -> None:
    """The same block graphs, each once."""
    case = CASES[name]
    backward = case.backward()
    assert backward
    assert len(set(backward)) == len(backward)
    assert set(backward) == set(case.forward(prune=True))


def test_pruning_loses_nothing() -> None:
    """Going forwards through everything, part of the reference or not, finds no more."""
    case = CASES["product"]
    assert set(case.backward()) == set(case.forward(prune=False))


def test_only_what_has_a_value_twice_is_left_out() -> None:
    """Without that saving there are all graphs that there were, and some more."""
    case = replace(CASES["softmax"], operators=7)
    assert set(case.forward(prune=True)) < set(case.forward(prune=True, dedupe=False))


@pytest.mark.parametrize("name", ["rms_norm", "gqa", "lora", "gated_mlp"])
def test_graphs_are_counted_without_being_made(name: str) -> None:
    """By the tensors that they load, there are as many as come up one after the other."""
    tables = DerivationGraph(read(builtin(name)), Space(block_operators=8))
    blocks = BlockGraphs(tables)
    stored = [step.operands for steps in tables.steps for step in steps if step.operator == "store"]
    total = 0
    for outputs in stored:
        assert tables.classes[outputs[0]].zone in (Scope.STILL, Scope.AFTER)
        for loads, count in blocks.counts(outputs, tables.space.kernels - 1).items():
            total += count
            graphs = list(blocks.graphs(outputs, loads)) if count < 300 else []
            assert len(set(graphs)) == len(graphs)
            assert not graphs or len(graphs) == count
            assert all(graph.loads == loads for graph in graphs)
            assert all(len(graph.steps) <= 8 for graph in graphs)
    assert total > len(stored)
