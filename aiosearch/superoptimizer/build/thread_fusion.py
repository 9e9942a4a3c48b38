"""Thread-level fusion: chains of pointwise operators of a block are kept in registers.

Between two of them no tile is written; a thread reads its elements once and writes what others
need. Of all ways to cut the chains this moves least through shared memory, whatever the sizes.
"""

from __future__ import annotations

from ...tensor import Block, Program, Term, apply
from ...tensor.mugraph import ACCUMULATE, LOAD, RESULT, Kernel, read, write
from ...tensor.types import Place


def threaded(program: Program) -> Program:
    """The program, with every chain of pointwise operators of a block in registers."""
    values: dict[Term, Term] = {operand: operand for operand in program.inputs}
    stored: dict[Kernel, tuple[Term, ...]] = {}
    for term in program.terms():
        if term.operator is RESULT:
            kernel: Kernel = term.parameter("kernel")
            if kernel not in stored:
                stored[kernel] = _ThreadedKernel(kernel, values).results()
            values[term] = stored[kernel][term.parameter("index")]
        elif term not in values and term.place in (Place.DEVICE, Place.ANYWHERE):
            values[term] = _reapplied(term, [values[operand] for operand in term.arguments])
    outputs = tuple(values[output] for output in program.outputs)
    return Program(program.name, program.inputs, outputs)


class _ThreadedKernel:
    """Rebuilds a kernel with threads."""

    def __init__(self, kernel: Kernel, values: dict[Term, Term]) -> None:
        self._kernel = kernel
        self._values = values
        self._block = Block(kernel.grid, kernel.range)
        self._tiles: dict[Term, Term] = {}
        self._registers: dict[Term, Term] = {}

    def results(self) -> tuple[Term, ...]:
        return self._block.results(
            *((self._tile(tile), maps) for tile, maps in self._kernel.outputs)
        )

    def _tile(self, term: Term) -> Term:
        tile = self._tiles.get(term)
        if tile is None:
            tile = self._tiles[term] = self._rebuilt(term)
        return tile

    def _rebuilt(self, term: Term) -> Term:
        """The tile of `term` in the new block."""
        if term.operator is LOAD:
            (source,) = term.arguments
            maps, loop = term.parameter("map"), term.parameter("loop")
            return self._block.load(self._values[source], map=maps, loop=loop)
        if term.place is Place.ANYWHERE:
            return term
        if term.operator is ACCUMULATE:
            kind, columns = term.parameter("kind"), term.parameter("columns")
            return self._block.accumulate(self._tile(term.arguments[0]), kind, columns or 64)
        # A single pointwise operator stays a tile: threads only pay where a value passes from one
        # to the next in a register.
        if _pointwise(term) and any(map(_pointwise, term.arguments)):
            return write(self._register(term))
        return _reapplied(term, [self._tile(argument) for argument in term.arguments])

    def _register(self, term: Term) -> Term:
        """What a thread holds of a tile."""
        register = self._registers.get(term)
        if register is None:
            if term.place is Place.ANYWHERE:
                return term
            if _pointwise(term):
                register = _reapplied(
                    term, [self._register(argument) for argument in term.arguments]
                )
            else:
                register = read(self._tile(term))
            self._registers[term] = register
        return register


def _pointwise(term: Term) -> bool:
    """Whether `term` computes a tile element by element."""
    return term.operator.pointwise and term.place in (Place.LOOP, Place.AFTER)


def _reapplied(term: Term, operands: list[Term]) -> Term:
    """`term` with new `operands`."""
    return apply(term.operator, *operands, **dict(term.parameters)) if operands else term
