"""Simplification of terms, which is always right and comes before any search.

`Tidier` brings each program into a simplest form, so that `RewriteSearch` meets equal programs once
and needs no rules such as x · 1 = x. The steps are in `simple_arithmetic` and `simple_moves`, each
from a term to a simpler one or `None`.
"""

from __future__ import annotations

from collections.abc import Callable

from ....tensor import Program, ShapeError, Term
from ....tensor.analysis.substitution import rebuilt_term
from ....tensor.terms import INPUT, LITERAL, walk
from . import simple_arithmetic as numbers
from . import simple_moves as moves
from .registry import fits


class Tidier:
    """Simplifies terms, each once: programs of a search share most of their terms."""

    def __init__(self) -> None:
        self._tidied: dict[Term, Term] = {}

    def program(self, program: Program) -> Program:
        """The program with every output in its simplest form."""
        return Program(program.name, program.inputs, tuple(map(self.term, program.outputs)))

    def term(self, root: Term) -> Term:
        """The simplest form of a term, operands first."""
        # Below a term that was met before is nothing new: of a large program, one rewriting leaves
        # most terms as they are.
        for term in walk([root], stop=self._tidied):
            if term not in self._tidied:
                self._tidied[term] = self._simplest(term)
        return self._tidied[root]

    def _simplest(self, term: Term) -> Term:
        """Simplifies until no step applies; the operands are in their simplest form already."""
        if term.operator is INPUT or term.operator is LITERAL:
            return term
        arguments = [self._tidied[argument] for argument in term.arguments]
        if arguments != list(term.arguments):
            term = rebuilt_term(term.operator, arguments, dict(term.parameters))
        simpler = simplified(term)
        return term if simpler is None else self.term(simpler)


def simplified(term: Term) -> Term | None:
    """A simpler term that one step leads to; `None` where there is no step."""
    step = _STEPS.get(term.operator.name)
    try:
        simpler = (step(term) if step is not None else None) or moves.reshaped_after(term)
    except ShapeError:
        return None
    # Literals are weak: they may stand where their value is meant, whatever the type there.
    if simpler is None or (simpler.dtype is not term.dtype and simpler.operator is not LITERAL):
        return None
    if simpler.operator is LITERAL and not term.shape and term.dtype is simpler.dtype:
        return simpler
    return simpler if simpler is not term and fits(simpler, term) else None


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
"""The simplification of each operator's terms."""
