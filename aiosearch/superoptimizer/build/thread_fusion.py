"""Thread-level fusion: chains of pointwise operators of a block are kept in registers.

Between two of them no tile is written; a thread reads its elements once and writes what others
need. Of all ways to cut the chains this moves least through shared memory, whatever the numbers.
"""

from __future__ import annotations

from ...tensor import Block, Program, Term, apply
from ...tensor.mugraph import ACCUMULATE, LOAD, RESULT, Kernel, read, write
from ...tensor.types import Place


def threaded(program: Program) -> Program:
    """The program, with every chain of pointwise operators of a block in registers."""
    values: dict[Term, Term] = {one: one for one in program.inputs}
    stored: dict[Kernel, tuple[Term, ...]] = {}
    for term in program.terms():
        if term.operator is RESULT:
            kernel: Kernel = term.parameter("kernel")
            if kernel not in stored:
                stored[kernel] = _Threads(kernel, values).results()
            values[term] = stored[kernel][term.parameter("index")]
        elif term not in values and term.place in (Place.DEVICE, Place.ANYWHERE):
            values[term] = _again(term, [values[one] for one in term.arguments])
    outputs = tuple(values[output] for output in program.outputs)
    return Program(program.name, program.inputs, outputs)


class _Threads:
    """A kernel that is made again."""

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
        found = self._tiles.get(term)
        if found is None:
            found = self._tiles[term] = self._made(term)
        return found

    def _made(self, term: Term) -> Term:
        if term.operator is LOAD:
            (source,) = term.arguments
            maps, loop = term.parameter("map"), term.parameter("loop")
            return self._block.load(self._values[source], map=maps, loop=loop)
        if term.place is Place.ANYWHERE:
            return term
        if term.operator is ACCUMULATE:
            kind, columns = term.parameter("kind"), term.parameter("columns")
            return self._block.accumulate(self._tile(term.arguments[0]), kind, columns or 64)
        if _pointwise(term) and any(map(_pointwise, term.arguments)):
            return write(self._register(term))
        return _again(term, [self._tile(one) for one in term.arguments])

    def _register(self, term: Term) -> Term:
        """What a thread holds of a tile."""
        found = self._registers.get(term)
        if found is None:
            if term.place is Place.ANYWHERE:
                return term
            if _pointwise(term):
                found = _again(term, [self._register(one) for one in term.arguments])
            else:
                found = read(self._tile(term))
            self._registers[term] = found
        return found


def _pointwise(term: Term) -> bool:
    return term.operator.pointwise and term.place in (Place.LOOP, Place.AFTER)


def _again(term: Term, operands: list[Term]) -> Term:
    return apply(term.operator, *operands, **dict(term.parameters)) if operands else term
