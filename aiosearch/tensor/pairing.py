"""Which of a saved graph's inputs is which of a program's: files do not keep their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .errors import ShapeError
from .mirage import MirageGraph
from .programs import Builtin
from .sizes import Dim
from .terms import Program
from .types import Shape

Pattern: TypeAlias = "Sequence[str | Dim]"
"""What an input's axes have to be: sizes, or labels that stand for one size each."""


@dataclass(frozen=True)
class Pair:
    """A program, and a graph over the inputs of that program."""

    reference: Program
    graph: Program
    order: tuple[int, ...]
    """For each of the reference's inputs its place among those of the file."""


def pairs(graph: MirageGraph, reference: Program | Builtin) -> Iterator[Pair]:
    """Every way in which the graph's inputs can be those of the reference, as far as types tell.

    A built-in program takes the sizes that the graph has.
    """
    found = (
        _with_sizes(graph, reference)
        if isinstance(reference, Builtin)
        else _as_it_is(graph, reference)
    )
    for pair in found:
        wanted = [term.type for term in pair.reference.outputs]
        if wanted == [term.type for term in pair.graph.outputs]:
            yield pair


def _with_sizes(graph: MirageGraph, reference: Builtin) -> Iterator[Pair]:
    dtypes = {one.dtype for one in graph.inputs}
    if len(dtypes) != 1:
        return
    (dtype,) = dtypes
    for order, sizes in _assignments(_shapes(graph), list(reference.inputs.values()), {}):
        try:
            program = reference.program(dtype, **sizes)
        except ShapeError:
            continue
        yield _pair(graph, program, order)


def _as_it_is(graph: MirageGraph, reference: Program) -> Iterator[Pair]:
    for order, _ in _assignments(_shapes(graph), [one.shape for one in reference.inputs], {}):
        dtypes = [graph.inputs[place].dtype for place in order]
        if dtypes == [one.dtype for one in reference.inputs]:
            yield _pair(graph, reference, order)


def _pair(graph: MirageGraph, reference: Program, order: Sequence[int]) -> Pair:
    given = sorted(zip(order, reference.inputs, strict=True), key=lambda pair: pair[0])
    found = graph.program([term for _, term in given])
    return Pair(reference, Program(found.name, reference.inputs, found.outputs), tuple(order))


def _shapes(graph: MirageGraph) -> dict[int, Shape]:
    return {place: one.shape for place, one in enumerate(graph.inputs)}


def _assignments(
    shapes: dict[int, Shape], patterns: Sequence[Pattern], sizes: dict[str, Dim]
) -> Iterator[tuple[list[int], dict[str, Dim]]]:
    """For each pattern a shape that fits, and the sizes that the labels get."""
    if not patterns:
        if not shapes:
            yield [], sizes
        return
    for place, shape in shapes.items():
        bound = _unify(shape, patterns[0], sizes)
        if bound is not None:
            rest = {other: left for other, left in shapes.items() if other != place}
            for order, found in _assignments(rest, patterns[1:], bound):
                yield [place, *order], found


def _unify(shape: Shape, pattern: Pattern, sizes: dict[str, Dim]) -> dict[str, Dim] | None:
    if len(shape) != len(pattern):
        return None
    bound = dict(sizes)
    for size, wanted in zip(shape, pattern, strict=True):
        expected = bound.setdefault(wanted, size) if isinstance(wanted, str) else wanted
        if expected != size:
            return None
    return bound
