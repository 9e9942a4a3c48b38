"""Programs with one mistake: what a verifier has to tell from the program they are made from.

    for mutant in mutants(program):
        print(mutant.description)       # "sum: axes [1]
     [0]"

Each `Mutant` is well-typed and has the inputs and outputs of the original; whether it computes
something else is for a verifier to say.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeAlias

from ..tensor.analysis.substitution import rebuilt, rebuilt_term, substituted
from ..tensor.errors import TensorError
from ..tensor.mugraph import (
    ACCUMULATE,
    ACCUMULATORS,
    LOAD,
    READ,
    RESULT,
    WRITE,
    Grid,
    Kernel,
    Map,
    results,
)
from ..tensor.operator import NUMBERS, OPERATORS, Operator, ParameterKind
from ..tensor.sizes import Dim, Size
from ..tensor.terms import INPUT, LITERAL, Program, Term, walk


class Change(StrEnum):
    """What is changed about a program: the kind of a `Mutant`."""

    MAP = "map"
    """Which axis a grid axis or the loop splits, for an input or an output."""
    AXIS = "axis"
    """An axis that an operator works along, or the order of axes."""
    SIZE = "size"
    """A grid, a loop's range, the ends of a slice, a window's stride."""
    OPERATOR = "operator"
    OPERAND = "operand"
    """Another value of the same type, or operands in another order."""
    LITERAL = "literal"
    ACCUMULATOR = "accumulator"


@dataclass(frozen=True)
class Mutant:
    """A `program` that differs from its original in one place; as a function it may be the same."""

    program: Program
    what: Change
    description: str


@dataclass(frozen=True)
class _Edit:
    """A change that `make` is yet to make, which may turn out not to fit."""

    what: Change
    description: str
    make: Callable[[], Program]


Value: TypeAlias = Any
"""The value of an operator's parameter: a number, an axis, axes, a map."""

_SPECIAL = (INPUT, LITERAL, LOAD, ACCUMULATE, READ, WRITE, RESULT)
_SIZES = (1, 2, 3, 4, 8)
_AXES = (
    ParameterKind.AXIS,
    ParameterKind.AXES,
    ParameterKind.PERMUTATION,
    ParameterKind.SHAPE,
    ParameterKind.FLAG,
)


def mutants(program: Program) -> Iterator[Mutant]:
    """Every well-typed program of the same inputs and outputs with one thing changed, each
    `Mutant` once."""
    # Two edits may come to the same program
    seen = {program}
    types = [output.type for output in program.outputs]
    for edit in _edits(program):
        try:
            # A change may not fit, and then the tensor language says so
            mutant = edit.make()
        except TensorError:
            continue
        # Another type of an output is no mistake that a verifier has to find: it sees it at once
        if mutant not in seen and [output.type for output in mutant.outputs] == types:
            seen.add(mutant)
            yield Mutant(mutant, edit.what, edit.description)


def _edits(program: Program) -> Iterator[_Edit]:
    terms = list(program.terms())
    below = {term: frozenset(walk([term])) for term in terms}
    for term in terms:
        if term.operator is INPUT:
            continue
        if term.operator is not RESULT:
            yield from _other_parameters(program, term)
            yield from _other_operators(program, term)
            yield from _other_orders(program, term)
            yield from _other_operands(program, term, below)
    for kernel in {term.parameter("kernel"): None for term in terms if term.operator is RESULT}:
        yield from _other_schedules(program, kernel)
        yield from _other_stores(program, kernel)
    yield from _other_outputs(program)


def _put(
    program: Program, term: Term, operator: Operator, arguments: Iterable[Term], **settings: Value
) -> Callable[[], Program]:
    """Makes the program with a term of this `operator` and these `arguments` in the place of
    another."""
    operands = tuple(arguments)
    parameters = dict(term.parameters) | settings

    def make() -> Program:
        return substituted(program, {term: rebuilt_term(operator, operands, parameters)})

    return make


# Parameters


def _other_parameters(program: Program, term: Term) -> Iterator[_Edit]:
    """Edits that give one parameter of a `term` another value."""
    for parameter, (name, value) in zip(term.operator.parameters, term.parameters, strict=True):
        what, alternatives = _alternatives(term, name, parameter.kind, value)
        for alternative in alternatives:
            if alternative != value:
                description = f"{term.operator.name}: {name} {_text(value)} → {_text(alternative)}"
                make = _put(program, term, term.operator, term.arguments, **{name: alternative})
                yield _Edit(what, description, make)


def _alternatives(
    term: Term, name: str, kind: ParameterKind, value: Value
) -> tuple[Change, Iterable[Value]]:
    if term.operator is LOAD:
        rank = len(term.arguments[0].shape)
        if name == "map":
            return Change.MAP, _maps(value, term.parameter("grid"), rank)
        return Change.MAP, (None, *range(rank)) if name == "loop" else ()
    if term.operator is ACCUMULATE:
        if name == "kind":
            return Change.ACCUMULATOR, ACCUMULATORS
        return Change.ACCUMULATOR, _SIZES if name == "columns" else ()
    if kind is ParameterKind.NUMBER:
        return Change.LITERAL, _numbers(value)
    if kind in _AXES:
        return Change.AXIS, _axes(
            kind, value, max(len(operand.shape) for operand in (*term.arguments, term))
        )
    if kind in (ParameterKind.SIZE, ParameterKind.COUNT):
        return Change.SIZE, _sizes(value)
    if kind is ParameterKind.COUNTS:
        return Change.SIZE, _single_replacements(value, range(max(value) + 2))
    return Change.AXIS, ()


def _maps(value: Map, grid: Grid, rank: int) -> Iterator[Map]:
    """Maps beside `value`; an axis along which there is one block may split anything, and is
    left alone."""
    entries = [
        (old,) if size == 1 else (None, *range(rank)) for old, size in zip(value, grid, strict=True)
    ]
    yield from ((x, y, z) for x, y, z in itertools.product(*entries))


def _axes(kind: ParameterKind, value: Value, rank: int) -> Iterator[Value]:
    if kind is ParameterKind.AXIS:
        yield from range(rank + 1)
    elif kind is ParameterKind.FLAG:
        yield not value
    elif kind is ParameterKind.AXES:
        for count in (len(value) - 1, len(value), len(value) + 1):
            yield from itertools.combinations(range(rank), max(count, 0))
    else:
        yield from sorted(set(itertools.permutations(value)), key=str)


def _single_replacements(
    values: Sequence[Value], entries: Iterable[Value]
) -> Iterator[tuple[Value, ...]]:
    """The `values` with one of them replaced, in every way."""
    for place, entry in itertools.product(range(len(values)), tuple(entries)):
        if values[place] != entry:
            yield (*values[:place], entry, *values[place + 1 :])


def _numbers(value: Value) -> Iterator[Value]:
    if not isinstance(value, Size):
        yield from (-value, 2 * value, Fraction(value) / 2, value + 1, 0)


def _sizes(value: Dim) -> Iterator[Dim]:
    yield from (value - 1, value + 1, value * 2)
    if isinstance(value, int) and value % 2 == 0:
        yield value // 2


# Operators and operands


def _other_operators(program: Program, term: Term) -> Iterator[_Edit]:
    """Edits that put in another operator with as many operands, and parameters of the same
    names."""
    operator = term.operator
    for replacement in () if operator in _SPECIAL else OPERATORS.values():
        if (
            replacement is not operator
            and replacement not in _SPECIAL
            and replacement.arity == operator.arity
            and replacement.parameters == operator.parameters
        ):
            make = _put(program, term, replacement, term.arguments)
            yield _Edit(Change.OPERATOR, f"{operator.name} → {replacement.name}", make)


def _other_orders(program: Program, term: Term) -> Iterator[_Edit]:
    """Edits that swap two operands of a `term`."""
    for first, second in itertools.combinations(range(len(term.arguments)), 2):
        swapped = list(term.arguments)
        swapped[first], swapped[second] = swapped[second], swapped[first]
        make = _put(program, term, term.operator, swapped)
        yield _Edit(Change.OPERAND, f"{term.operator.name}: operands swapped", make)


def _other_operands(
    program: Program, term: Term, below: dict[Term, frozenset[Term]]
) -> Iterator[_Edit]:
    """Edits that put another term of the same type in the place of an operand."""
    for place, operand in enumerate(term.arguments):
        for replacement in below:
            if (
                replacement.type == operand.type
                and replacement is not operand
                and term not in below[replacement]
            ):
                arguments = (*term.arguments[:place], replacement, *term.arguments[place + 1 :])
                make = _put(program, term, term.operator, arguments)
                description = (
                    f"{term.operator.name}: operand {_name(operand)} → {_name(replacement)}"
                )
                yield _Edit(Change.OPERAND, description, make)


def _other_outputs(program: Program) -> Iterator[_Edit]:
    terms = list(program.terms())
    for place, output in enumerate(program.outputs):
        for replacement in terms:
            if replacement.type == output.type:
                outputs = (*program.outputs[:place], replacement, *program.outputs[place + 1 :])
                description = f"output {place}: {_name(output)} → {_name(replacement)}"
                yield _Edit(Change.OPERAND, description, _returning(program, outputs))


def _returning(program: Program, outputs: tuple[Term, ...]) -> Callable[[], Program]:
    return lambda: Program(program.name, program.inputs, outputs)


# Kernels


def _other_schedules(program: Program, kernel: Kernel) -> Iterator[_Edit]:
    """Edits that give the grid another size along one axis, or the `kernel` another range."""
    body = frozenset(kernel.body)

    def resized(name: str, place: int, size: int) -> Callable[[], Program]:
        def resize(term: Term, letter: str, at: int, dim: Dim) -> Dim:
            here = term in body or (term.operator is RESULT and term.parameter("kernel") == kernel)
            return size if here and (letter, at) == (name, place) else dim

        return lambda: rebuilt([program], program.inputs, resize, NUMBERS)[0]

    for size in _SIZES:
        for axis, old in enumerate(kernel.grid):
            description = f"grid axis {'xyz'[axis]}: {old} → {size}"
            yield _Edit(Change.SIZE, description, resized("grid", axis, size))
        description = f"range: {kernel.range} → {size}"
        yield _Edit(Change.SIZE, description, resized("range", 0, size))


def _other_stores(program: Program, kernel: Kernel) -> Iterator[_Edit]:
    """Edits that give an output another map, or store another tile of the block in its place."""
    for place, (tile, maps) in enumerate(kernel.outputs):
        for replacement in _maps(maps, kernel.grid, len(tile.shape)):
            description = f"store: map {_text(maps)} → {_text(replacement)}"
            yield _Edit(
                Change.MAP, description, _storing(program, kernel, place, tile, replacement)
            )
        for term in kernel.body:
            if term.type == tile.type and term is not tile:
                description = f"store: {_name(tile)} → {_name(term)}"
                make = _storing(program, kernel, place, term, maps)
                yield _Edit(Change.OPERAND, description, make)


def _storing(
    program: Program, kernel: Kernel, place: int, tile: Term, maps: Map
) -> Callable[[], Program]:
    outputs = (*kernel.outputs[:place], (tile, maps), *kernel.outputs[place + 1 :])

    def make() -> Program:
        stored = results(Kernel(kernel.grid, kernel.range, outputs))
        changes = {
            term: stored[term.parameter("index")]
            for term in program.terms()
            if term.operator is RESULT and term.parameter("kernel") == kernel
        }
        return substituted(program, changes)

    return make


def _name(term: Term) -> str:
    name = term.parameter("name") if term.operator is INPUT else term.operator.name
    return str(name)


def _text(value: Value) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
