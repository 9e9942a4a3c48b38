"""A program without its changes of floating types, which search has no word for.

A kernel adds up in 32 bits at least, whatever types it loads and stores. So where a program widens
half types to add them up and narrows the sum, the same without both is what a kernel does.
"""

from __future__ import annotations

from ..tensor import Program, Term
from ..tensor.errors import TensorError
from ..tensor.mugraph import RESULT
from ..tensor.rebuild import made
from ..tensor.types import FLOATING


def uncast(program: Program) -> Program:
    """The program itself where its casts are not all of that kind, or where types would change."""
    values: dict[Term, Term] = {}
    try:
        for term in program.terms():
            values[term] = _without(term, [values[one] for one in term.arguments])
    except TensorError:
        return program
    outputs = tuple(values[one] for one in program.outputs)
    if [one.type for one in outputs] != [one.type for one in program.outputs]:
        return program
    return Program(program.name, program.inputs, outputs)


def _without(term: Term, arguments: list[Term]) -> Term:
    if term.operator is RESULT or not arguments:
        return term
    if term.operator.name == "cast" and {term.dtype, term.arguments[0].dtype} <= FLOATING:
        return arguments[0]
    if arguments == list(term.arguments):
        return term
    return made(term.operator, arguments, dict(term.parameters))
