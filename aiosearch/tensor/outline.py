"""The order in which a program is written down: text, files and drawings all follow it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .mugraph import READ, RESULT, WRITE, Kernel
from .terms import Program, Term
from .types import Place

_LOOP = (Place.LOOP, Place.LOOP_REGISTER)
_REGISTERS = (Place.LOOP_REGISTER, Place.AFTER_REGISTER)


@dataclass(frozen=True)
class Thread:
    """What threads do between reading tiles and writing them: register terms and writes."""

    terms: tuple[Term, ...]


Step: TypeAlias = "Term | Thread"


def steps(program: Program) -> Iterator[Term | Kernel]:
    """The kernel graph, operands first: each operator, input, literal and custom kernel once."""
    kernels: set[Kernel] = set()
    for term in program.terms():
        if term.operator is RESULT:
            kernel: Kernel = term.parameter("kernel")
            if kernel not in kernels:
                kernels.add(kernel)
                yield kernel
        elif term.place in (Place.DEVICE, Place.ANYWHERE):
            yield term


def graph_steps(program: Program) -> list[Term | Kernel]:
    """The same without the literals that only block graphs use."""
    found = list(steps(program))
    used = {argument for step in found if isinstance(step, Term) for argument in step.arguments}
    used.update(program.outputs)
    return [
        step
        for step in found
        if isinstance(step, Kernel) or step.place is not Place.ANYWHERE or step in used
    ]


def block_steps(kernel: Kernel) -> list[Step]:
    """The block graph, operands first, the loop before what follows it; threads put together."""
    body = [term for term in kernel.body if term.place is not Place.ANYWHERE]
    body.sort(key=lambda term: term.place not in _LOOP)
    found: list[Step] = []
    done: set[Term] = set()
    for term in body:
        if term.operator is WRITE:
            _join(found, [*_registers(term, done), term])
        elif term.place not in _REGISTERS:
            found.append(term)
    return found


def _registers(write: Term, done: set[Term]) -> list[Term]:
    """What a write needs computed in registers that no earlier thread did."""
    found: list[Term] = []
    stack = [(write.arguments[0], False)]
    while stack:
        term, ready = stack.pop()
        if term in done or term.place not in _REGISTERS or term.operator is READ:
            continue
        if ready:
            done.add(term)
            found.append(term)
            continue
        stack.append((term, True))
        stack.extend((argument, False) for argument in reversed(term.arguments))
    return found


def _join(found: list[Step], terms: Sequence[Term]) -> None:
    """Adds to the last thread where its registers, but not its tiles, are used; else starts one."""
    last = found[-1] if found else None
    if isinstance(last, Thread):
        known = set(last.terms)
        used = {argument for term in terms for argument in term.arguments}
        read = {argument for term in used if term.operator is READ for argument in term.arguments}
        if used & known and not read & known:
            found[-1] = Thread((*last.terms, *terms))
            return
    found.append(Thread(tuple(terms)))
