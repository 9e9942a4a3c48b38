"""Rebuilding of programs over other inputs or sizes, or with some terms replaced.

Terms are immutable and interned, so that a change rebuilds everything above it:
`substituted(program, {old: new})` shares all terms that `old` does not reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from ..mugraph import ACCUMULATE, LOAD, READ, RESULT, WRITE, Block, Kernel, read, write
from ..operator import NUMBERS, Dimensions, Operator, ParameterKind, ParameterValue
from ..sizes import Dim, Size
from ..terms import LITERAL, Program, Term, apply, literal, walk

Resize: TypeAlias = Callable[[Term, str, int, Dim], Dim]
"""The new size for a term's parameter.

The term, the parameter, which of its sizes, the old size.
"""


def rebuilt(
    programs: Iterable[Program], inputs: Sequence[Term], resize: Resize, dims: Dimensions
) -> list[Program]:
    """The structure of `programs` over other inputs, with each size parameter given by `resize`."""
    built: dict[Term, Term] = {}
    stored: dict[Kernel, tuple[Term, ...]] = {}
    results = []
    for program in programs:
        built.update(zip(program.inputs, inputs, strict=True))
        for term in program.terms():
            if term not in built:
                arguments = [built[argument] for argument in term.arguments]
                built[term] = _rebuilt(term, arguments, resize, dims, stored)
        outputs = tuple(built[output] for output in program.outputs)
        results.append(Program(program.name, tuple(inputs), outputs))
    return results


def _rebuilt(
    term: Term,
    arguments: Sequence[Term],
    resize: Resize,
    dims: Dimensions,
    stored: dict[Kernel, tuple[Term, ...]],
) -> Term:
    """`term` over other arguments; the results of one kernel are stored together."""
    operator = term.operator
    if operator is RESULT:
        kernel: Kernel = term.parameter("kernel")
        # All outputs of a kernel are built at once: they share the block.
        if kernel not in stored:
            grid = [resize(term, "grid", axis, size) for axis, size in enumerate(kernel.grid)]
            maps = [split for _, split in kernel.outputs]
            block = Block(grid, resize(term, "range", 0, kernel.range), dims)
            stored[kernel] = block.results(*zip(arguments, maps, strict=True))
        index: int = term.parameter("index")
        return stored[kernel][index]
    parameters = {
        parameter.name: _size(term, parameter.name, parameter.kind, value, resize)
        for parameter, (_, value) in zip(operator.parameters, term.parameters, strict=True)
    }
    return rebuilt_term(operator, arguments, parameters, dims)


def rebuilt_term(
    operator: Operator,
    arguments: Sequence[Term],
    parameters: Mapping[str, ParameterValue],
    dims: Dimensions = NUMBERS,
) -> Term:
    """A term from its parts; raises ShapeError where they do not fit.

    A kernel's results are built together, by `mugraph.results`.
    """
    if operator is READ:
        return read(arguments[0])
    if operator is WRITE:
        return write(arguments[0])
    if operator is LOAD:
        block = Block(parameters["grid"], parameters["range"], dims)
        return block.load(arguments[0], parameters["map"], parameters["loop"])
    if operator is ACCUMULATE:
        block = Block((), parameters["range"], dims)
        return block.accumulate(arguments[0], parameters["kind"], parameters["columns"])
    if operator is LITERAL:
        return literal(parameters["value"])
    return apply(operator, *arguments, dims=dims, **parameters)


def _size(
    term: Term, name: str, kind: ParameterKind, value: ParameterValue, resize: Resize
) -> ParameterValue:
    """A parameter's value with its sizes replaced by `resize`."""
    # A number parameter may be a symbolic size, as in a mean written by hand.
    if kind is ParameterKind.SIZE or (kind is ParameterKind.NUMBER and isinstance(value, Size)):
        return resize(term, name, 0, value)
    if kind is ParameterKind.SHAPE:
        return tuple(resize(term, name, place, dim) for place, dim in enumerate(value))
    return value


def substituted(program: Program, changes: Mapping[Term, Term]) -> Program:
    """The program with terms replaced by others; raises ShapeError where those do not fit."""
    return Program(program.name, program.inputs, replaced(program.outputs, changes))


def replaced(outputs: Sequence[Term], changes: Mapping[Term, Term]) -> tuple[Term, ...]:
    """The terms of `outputs` with `changes` applied below them."""
    # Replacements are taken as they are: nothing is substituted inside of them.
    built = dict(changes)
    stored: dict[Kernel, tuple[Term, ...]] = {}
    for term in walk(outputs, stop=changes):
        if term in built:
            continue
        arguments = tuple(built[argument] for argument in term.arguments)
        # Interned terms are compared by identity: nothing below changed.
        same = arguments == term.arguments
        built[term] = term if same else _rebuilt(term, arguments, _as_it_was, NUMBERS, stored)
    return tuple(built[output] for output in outputs)


def _as_it_was(term: Term, name: str, place: int, dim: Dim) -> Dim:
    """The old size."""
    return dim
