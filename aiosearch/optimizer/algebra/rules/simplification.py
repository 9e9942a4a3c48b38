"""Simplification of terms, which is always right and comes before any search."""

from __future__ import annotations

from collections.abc import Callable

from ....tensor import Program, ShapeError, Term
from ....tensor.analysis.substitution import rebuilt_term
from ....tensor.terms import INPUT, LITERAL, walk
from . import simple_arithmetic as numbers
from . import simple_moves as moves
from .registry import fits


class Tidier:
    """Simplifies terms, each once."""

    def __init__(self) -> None:
        self._tidied: dict[Term, Term] = {}

    def program(self, program: Program) -> Program:
        return Program(program.name, program.inputs, tuple(map(self.term, program.outputs)))

    def term(self, root: Term) -> Term:
        for term in walk([root]):
            if term not in self._tidied:
                self._tidied[term] = self._simplest(term)
        return self._tidied[root]

    def _simplest(self, term: Term) -> Term:
        if term.operator is INPUT or term.operator is LITERAL:
            return term
        arguments = [self._tidied[argument] for argument in term.arguments]
        if arguments != list(term.arguments):
            term = rebuilt_term(term.operator, arguments, dict(term.parameters))
        found = simplified(term)
        return term if found is None else self.term(found)


def simplified(term: Term) -> Term | None:
    """A simpler term, if there is one step to it."""
    step = _STEPS.get(term.operator.name)
    try:
        found = (step(term) if step is not None else None) or moves.reshaped_after(term)
    except ShapeError:
        return None
    if found is None or (found.dtype is not term.dtype and found.operator is not LITERAL):
        return None
    if found.operator is LITERAL and not term.shape and term.dtype is found.dtype:
        return found
    return found if found is not term and fits(found, term) else None


_STEPS: dict[str, Callable[[Term], Term | None]] = {
    "abs": numbers.once,
    "add": numbers.add,
    "broadcast": moves.broadcast,
    "cast": moves.cast,
    "concatenate": moves.concatenate,
    "div": numbers.div,
    "exp": numbers.undone("log"),
    "log": numbers.undone("exp"),
    "max": moves.reduced,
    "matmul": moves.matmul,
    "maximum": numbers.largest,
    "mean": moves.reduced,
    "min": moves.reduced,
    "minimum": numbers.largest,
    "mul": numbers.mul,
    "neg": numbers.neg,
    "pow": numbers.to_power,
    "power": numbers.power,
    "relu": numbers.once,
    "reshape": moves.reshape,
    "slice": moves.sliced,
    "sqrt": numbers.sqrt,
    "square": numbers.undone("sqrt"),
    "sub": numbers.sub,
    "sum": moves.sums,
    "transpose": moves.transpose,
}
