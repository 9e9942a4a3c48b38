"""What a program is called by what it computes, whatever its name and its inputs' names."""

from __future__ import annotations

import hashlib

from ..tensor import Program, Term


def canonical_digest(program: Program) -> str:
    """Gives 32 hexadecimal digits, the same in every process.

    Programs share them when they apply the same operators to inputs of the same types in the same
    order. What happens to inputs that no output depends on does not matter.
    """
    numbers: dict[Term, int] = {}
    digest = hashlib.blake2b(digest_size=16, person=b"aiosearch-prog")
    for term in program.inputs:
        digest.update(f"{term.type}\n".encode())
        numbers[term] = len(numbers)
    for term in program.terms():
        if term not in numbers:
            operands = [numbers[argument] for argument in term.arguments]
            line = f"{term.operator.name} {term.type} {term.parameters!r} {operands}\n"
            digest.update(line.encode())
            numbers[term] = len(numbers)
    digest.update(repr([numbers[output] for output in program.outputs]).encode())
    return digest.hexdigest()
