"""From a program, with or without custom kernels, to the tile IR.

Half types are worked on in 32 bits and rounded where the program casts and where an output is
stored, no more often: what lies in between is kept in 32 bits, also between kernels, so that errors
stay below those of the program as it is written. Only the operands of matmuls of half types are
kept in the half type, which is what they take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from ..tensor.evaluate import step
from ..tensor.mugraph import RESULT
from ..tensor.mugraph import Kernel as Custom
from ..tensor.terms import LITERAL, Program, Term
from ..tensor.types import DType, Place
from .algebra import Values, known
from .grouping import grouped
from .ir import Buffer, Index, Kernel, Module, Stage
from .merging import merged, renamed
from .ordering import ordered
from .reindexing import Fresh
from .staging import Stager
from .tiling import tiled
from .values import Given, Kept, Value

_LETTERS = "ijklmnopqrstuvwxyz"


def lower(program: Program) -> Module:
    """The program's kernels. All its sizes have to be known."""
    inputs = [_buffer(one.parameter("name"), one) for one in program.inputs]
    values = _Evaluation(program, inputs).outputs
    names = _Names(one.name for one in inputs)
    wanted: dict[Value, Buffer] = {}
    for number, (term, value) in enumerate(zip(program.outputs, values, strict=True)):
        if value not in wanted and not isinstance(value.what, Given):
            name = "out" if len(program.outputs) == 1 else f"out{number}"
            wanted[value] = _buffer(names.take(name), term)
    stager = Stager(wanted, names.another)
    groups = [unit.stages for unit in grouped(stager.units, wanted.values()) if unit.stages]
    outputs = tuple(
        value.what.buffer if isinstance(value.what, Given) else wanted[value] for value in values
    )
    kernels = _kernels(program.name, groups, outputs, stager.fresh)
    return Module(program.name, tuple(inputs), outputs, kernels)


class _Evaluation:
    """The program in values; what a custom kernel does belongs to it."""

    def __init__(self, program: Program, inputs: Sequence[Buffer]) -> None:
        self._algebra = Values()
        self._values = {
            term: self._algebra.make(Given(buffer), (), buffer.shape, buffer.dtype)
            for term, buffer in zip(program.inputs, inputs, strict=True)
        }
        self._tiles: dict[Custom, dict[Term, Value]] = {}
        for term in program.terms():
            if term not in self._values and term.place in (Place.DEVICE, Place.ANYWHERE):
                made = self._result if term.operator is RESULT else self._step
                self._values[term] = made(term, self._values)
        self.outputs = [self._values[output] for output in program.outputs]

    def _step(self, term: Term, values: Mapping[Term, Value]) -> Value:
        if term.operator is LITERAL:
            return self._algebra.constant(term.parameter("value"))
        turned = term.operator.name == "min" and term.dtype is DType.I32
        algebra = self._algebra.complementing() if turned else self._algebra
        operands = [values[argument] for argument in term.arguments]
        found = step(term, algebra, operands, as_written=True)
        weak = DType.WEAK in (found.dtype, term.dtype)
        return found if weak else self._algebra.cast(found, term.dtype)

    def _result(self, term: Term, values: Mapping[Term, Value]) -> Value:
        kernel: Custom = term.parameter("kernel")
        self._algebra.owner = kernel
        if kernel not in self._tiles:
            tiles = dict(values)
            for one in kernel.body:
                tiles[one] = self._step(one, tiles)
            self._tiles[kernel] = tiles
        stored = self._step(term, self._tiles[kernel])
        found = self._algebra.make(Kept(), (stored,), stored.shape, stored.dtype)
        self._algebra.owner = None
        return found


class _Names:
    """Names that are not in use."""

    def __init__(self, used: Iterable[str]) -> None:
        self._used = set(used)
        self._count = count()

    def take(self, name: str) -> str:
        while name in self._used:
            name = f"{name}_"
        self._used.add(name)
        return name

    def another(self) -> str:
        return self.take(f"t{next(self._count)}")


def _buffer(name: str, term: Term) -> Buffer:
    dtype = DType.F32 if term.dtype is DType.WEAK else term.dtype
    return Buffer(name, dtype, tuple(map(known, term.shape)))


def _kernels(
    name: str, groups: Sequence[Sequence[Stage]], outputs: Sequence[Buffer], fresh: Fresh
) -> tuple[Kernel, ...]:
    """One for each group; what it fills is its output where another or the caller reads it."""
    found, reading = [], [set(_read(group)) for group in groups]
    for number, group in enumerate(groups):
        read = set[Buffer]().union(*reading[:number], *reading[number + 1 :])
        fixed = read | set(outputs)
        stages = ordered(merged(tiled(group, fixed, fresh)), fixed)
        filled = {stage.target: None for stage in stages}
        inputs = tuple(buffer for buffer in _read(stages) if buffer not in filled)
        stored = tuple(buffer for buffer in filled if buffer in fixed)
        own = name if len(groups) == 1 else f"{name}_{number}"
        found.append(_named(Kernel(own, inputs, stored, tuple(stages))))
    return tuple(found)


def _read(stages: Sequence[Stage]) -> list[Buffer]:
    return list(dict.fromkeys(load.buffer for stage in stages for load in stage.loads))


def _named(kernel: Kernel) -> Kernel:
    """With short names for the indices."""
    names = {one: Index(_name(number), one.size) for number, one in enumerate(kernel.indices)}
    stages = tuple(renamed(stage, names) for stage in kernel.stages)
    return Kernel(kernel.name, kernel.inputs, kernel.outputs, stages)


def _name(number: int) -> str:
    again, letter = divmod(number, len(_LETTERS))
    return f"{_LETTERS[letter]}{again or ''}"
