"""What of a program depends on its constant inputs alone."""

from __future__ import annotations

from collections.abc import Collection

from ...tensor import Program, Term
from ...tensor.terms import INPUT


def settled(program: Program, constant: Collection[int]) -> frozenset[Term]:
    """The inputs at these places, and all that is computed from them, and numbers, alone."""
    given = {program.inputs[at] for at in constant}
    found: set[Term] = set(given)
    numbers: set[Term] = set()
    for term in program.terms():
        if term.operator is INPUT:
            continue
        arguments = set(term.arguments)
        if arguments <= numbers:
            numbers.add(term)
        elif arguments <= found | numbers:
            found.add(term)
    return frozenset(found)
