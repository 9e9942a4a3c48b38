"""Programs that pay only where weights are prepared beforehand; yet to be verified."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

from ..tensor import Program, Term, apply
from ..tensor.rebuild import substituted
from ..tensor.types import HALVES
from .algebra.building import sizes
from .algebra.settled import settled


def prepared(program: Program, constant: tuple[int, ...]) -> list[Program]:
    """The program with weights side by side, and with wider ones, where there are any."""
    found = [one for one in (_joined(program, constant),) if one != program]
    wider = (_widened(one, constant) for one in [program, *found])
    return [*found, *(one for one in wider if one not in (program, *found))]


def _joined(program: Program, constant: tuple[int, ...]) -> Program:
    """Products of one term with several weights as one product with all their columns."""
    while (group := next(_groups(program, constant), None)) is not None:
        program = substituted(program, dict(_columns(group)))
    return program


def _groups(program: Program, constant: tuple[int, ...]) -> Iterator[list[Term]]:
    """Products that differ in their settled right operands alone."""
    ready = settled(program, constant)
    alike: defaultdict[tuple[object, ...], list[Term]] = defaultdict(list)
    for term in program.terms():
        if term.operator.name == "matmul" and term not in ready and term.arguments[1] in ready:
            left, right = term.arguments
            alike[left, right.dtype, right.shape[:-1]].append(term)
    return (group for group in alike.values() if len(group) > 1)


def _columns(group: Sequence[Term]) -> Iterator[tuple[Term, Term]]:
    """Each product, and the columns of the joined one that are its own."""
    weights = [term.arguments[1] for term in group]
    last = len(group[0].shape) - 1
    rank = len(weights[0].shape)
    whole = group[0].arguments[0] @ apply("concatenate", *weights, axis=rank - 1)
    widths = [sizes(weight)[-1] for weight in weights]
    for term, stop, width in zip(group, accumulate(widths), widths, strict=True):
        yield term, apply("slice", whole, axis=last, start=stop - width, stop=stop)


def _widened(program: Program, constant: tuple[int, ...]) -> Program:
    """Products of half types with weights, in 32 bits and rounded after."""
    ready = settled(program, constant)
    for term in reversed(list(program.terms())):
        weighted = term not in ready and any(one in ready for one in term.arguments)
        if weighted and term.operator.name == "matmul" and term.dtype in HALVES:
            program = substituted(program, {term: _wide(term)})
    return program


def _wide(term: Term) -> Term:
    left, right = (apply("cast", argument, dtype="f32") for argument in term.arguments)
    return apply("cast", left @ right, dtype=term.dtype)
