"""Rebuilding of programs over other inputs or sizes, or with some terms replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ..mugraph import ACCUMULATE, LOAD, READ, RESULT, WRITE, Block, Kernel, read, write
from ..operator import NUMBERS, Dimensions, Operator, ParameterKind
from ..sizes import Dim, Size
from ..terms import LITERAL, Program, Term, apply, literal, walk

Resize: TypeAlias = Callable[[Term, str, int, Dim], Dim]
"""The new size for a term's parameter: its name, which of its sizes, and the old size."""


def rebuilt(
    programs: Iterable[Program], inputs: Sequence[Term], resize: Resize, dims: Dimensions
) -> list[Program]:
    """The same structure over other inputs and sizes."""
    built: dict[Term, Term] = {}
    stored: dict[Kernel, tuple[Term, ...]] = {}
    found = []
    for program in programs:
        built.update(zip(program.inputs, inputs, strict=True))
        for term in program.terms():
            if term not in built:
                arguments = [built[argument] for argument in term.arguments]
                built[term] = _remade(term, arguments, resize, dims, stored)
        outputs = tuple(built[output] for output in program.outputs)
        found.append(Program(program.name, tuple(inputs), outputs))
    return found


def _remade(
    term: Term,
    arguments: Sequence[Term],
    resize: Resize,
    dims: Dimensions,
    stored: dict[Kernel, tuple[Term, ...]],
) -> Term:
    operator = term.operator
    if operator is RESULT:
        kernel: Kernel = term.parameter("kernel")
        if kernel not in stored:
            grid = [resize(term, "grid", axis, size) for axis, size in enumerate(kernel.grid)]
            maps = [split for _, split in kernel.outputs]
            block = Block(grid, resize(term, "range", 0, kernel.range), dims)
            stored[kernel] = block.results(*zip(arguments, maps, strict=True))
        index: int = term.parameter("index")
        return stored[kernel][index]
    given = {
        parameter.name: _size(term, parameter.name, parameter.kind, value, resize)
        for parameter, (_, value) in zip(operator.parameters, term.parameters, strict=True)
    }
    return rebuilt_term(operator, arguments, given, dims)


def rebuilt_term(
    operator: Operator,
    arguments: Sequence[Term],
    given: Mapping[str, Any],
    dims: Dimensions = NUMBERS,
) -> Term:
    """A term from its parts; raises ShapeError where they do not fit.

    A kernel's results are made together, by `results`.
    """
    if operator is READ:
        return read(arguments[0])
    if operator is WRITE:
        return write(arguments[0])
    if operator is LOAD:
        block = Block(given["grid"], given["range"], dims)
        return block.load(arguments[0], given["map"], given["loop"])
    if operator is ACCUMULATE:
        block = Block((), given["range"], dims)
        return block.accumulate(arguments[0], given["kind"], given["columns"])
    if operator is LITERAL:
        return literal(given["value"])
    return apply(operator, *arguments, dims=dims, **given)


def _size(term: Term, name: str, kind: ParameterKind, value: Any, resize: Resize) -> Any:
    if kind is ParameterKind.SIZE or (kind is ParameterKind.NUMBER and isinstance(value, Size)):
        return resize(term, name, 0, value)
    if kind is ParameterKind.SHAPE:
        return tuple(resize(term, name, place, dim) for place, dim in enumerate(value))
    return value


def substituted(program: Program, changes: Mapping[Term, Term]) -> Program:
    """The program with terms replaced by others; raises ShapeError where those do not fit."""
    return Program(program.name, program.inputs, replaced(program.outputs, changes))


def replaced(outputs: Sequence[Term], changes: Mapping[Term, Term]) -> tuple[Term, ...]:
    """The same of some outputs, which need not be a program's."""
    built = dict(changes)
    stored: dict[Kernel, tuple[Term, ...]] = {}
    for term in walk(outputs, stop=changes):
        if term in built:
            continue
        arguments = tuple(built[argument] for argument in term.arguments)
        same = arguments == term.arguments
        built[term] = term if same else _remade(term, arguments, _as_it_was, NUMBERS, stored)
    return tuple(built[one] for one in outputs)


def _as_it_was(term: Term, name: str, place: int, dim: Dim) -> Dim:
    return dim
