"""The order of statements that text, JSON files and drawings of a program share.

Operands come first. In a block, register operators are grouped into threads: `block_steps` of a
kernel whose thread computes exp and a product gives [load, load, Thread(...), accumulate].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ..mugraph import READ, RESULT, WRITE, Kernel
from ..terms import Program, Term
from ..types import Place

_LOOP = (Place.LOOP, Place.LOOP_REGISTER)
"""Places of values that are computed in each iteration."""
_REGISTERS = (Place.LOOP_REGISTER, Place.AFTER_REGISTER)
"""Places of values that threads hold."""


@dataclass(frozen=True)
class Thread:
    """What threads do between reading tiles and writing them: register terms, and writes."""

    terms: tuple[Term, ...]


Step: TypeAlias = "Term | Thread"
"""A statement of a block."""


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
    """The `steps` without the literals that only block graphs use."""
    listed = list(steps(program))
    used = {argument for step in listed if isinstance(step, Term) for argument in step.arguments}
    used.update(program.outputs)
    return [
        step
        for step in listed
        if isinstance(step, Kernel) or step.place is not Place.ANYWHERE or step in used
    ]


def block_steps(kernel: Kernel) -> list[Step]:
    """The block graph, operands first, the loop before what follows it; threads grouped."""
    body = [term for term in kernel.body if term.place is not Place.ANYWHERE]
    # The sort is stable: within the loop and after it, operands stay first.
    body.sort(key=lambda term: term.place not in _LOOP)
    outline = _Outline()
    for term in body:
        if term.operator is WRITE:
            outline.thread(term)
        elif term.place not in _REGISTERS:
            outline.add(term)
    return [Thread(tuple(step)) if isinstance(step, list) else step for step in outline.collected]


class _Outline:
    """The statements of a block as they are collected."""

    def __init__(self) -> None:
        self.collected: list[Term | list[Term]] = []
        """Terms, and lists of terms that one thread computes."""
        self._home: dict[Term, int] = {}
        """The index of the statement that each term is in."""

    def add(self, step: Term | list[Term]) -> None:
        """Appends a statement."""
        for term in step if isinstance(step, list) else [step]:
            self._home[term] = len(self.collected)
        self.collected.append(step)

    def thread(self, write: Term) -> None:
        """Extends the thread whose registers `write` uses, if all its tiles exist before it."""
        terms = [*self._registers(write), write]
        used = {argument for term in terms for argument in term.arguments}
        tiles = [term.arguments[0] for term in used if term.operator is READ]
        last = max((self._home[term] for term in used if term in self._home), default=0)
        thread = self.collected[last]
        # Joining an earlier thread moves the write up: legal only if every tile that it reads is
        # there by then.
        if isinstance(thread, list) and all(self._home[tile] < last for tile in tiles):
            thread.extend(terms)
            self._home.update(dict.fromkeys(terms, last))
        else:
            self.add(terms)

    def _registers(self, write: Term) -> list[Term]:
        """What `write` needs computed in registers that no earlier thread did, operands first."""
        ordered: dict[Term, None] = {}
        stack = [(write.arguments[0], False)]
        while stack:
            term, ready = stack.pop()
            done = term in ordered or term in self._home
            if done or term.place not in _REGISTERS or term.operator is READ:
                continue
            if ready:
                ordered[term] = None
                continue
            stack.append((term, True))
            # Reversed, so that the first operand is popped and computed first.
            stack.extend((argument, False) for argument in reversed(term.arguments))
        return list(ordered)
