"""From a program, with or without custom kernels, to a module of tile IR kernels.

From a program, with or without custom kernels, to the tile IR.

Half types are worked on in 32 bits and rounded where the program casts and where an output is
stored, no more often: what lies in between is kept in 32 bits, also between kernels, so that errors
stay below those of the program as it is written. Only the operands of matmuls of half types are
kept in the half type, which is what they take.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count

from ...tensor.evaluation.evaluate import step
from ...tensor.mugraph import RESULT
from ...tensor.mugraph import Kernel as Custom
from ...tensor.terms import LITERAL, Program, Term
from ...tensor.types import BYTES, DType, Place
from ..ir import Apply, Buffer, KernelStage, LoopIndex, Module, ReductionKind, TileKernel, walk
from ..passes.index_unification import is_read_as_written, rename_indices, unify_indices
from ..passes.reindexing import FreshIndex
from ..passes.scratch_layout import order_scratch_axes, tile_scratch
from .materialization import EXPENSIVE_OPERATIONS
from .stages import StageBuilder, StageGroup
from .value_graph import InputValue, StoredValue, TensorValue, ValueAlgebra, known_shape

_MOST_SHARED_STAGES = 4
"""So many operations may be done again for each block of rows that are multiplied."""
_ROW = 1 << 16
"""So many elements of a row, at most, are gone through by several folds of one kernel."""


def group_kernels(units: Sequence[StageGroup], outputs: Collection[Buffer]) -> list[StageGroup]:
    """Units that are one kernel each, in an order in which they can run; some are empty.

    A custom kernel is one, with all its stages. Elsewhere a fold starts a kernel and what is
    computed element by element from it joins it, at the same places. A fold of what an earlier
    kernel computes joins that one too, where all folds in it then have the same free indices, the
    rows, and a row is small: a softmax or a norm is one kernel. And what one sum alone takes, and
    is easily made, more than what it gives and in more bits than what it is made of, is made in its
    kernel, tile by tile: of weights in few bits nobody has to write down all that they stand for.
    """
    found: list[StageGroup] = []
    where: dict[Buffer, int] = {}
    asked = Counter(buffer for unit in units for buffer in _all_read(unit))
    for unit in units:
        place = max((where.get(b, -1) for s in unit.stages for b in _read_buffers(s)), default=-1)
        if unit.owner is None and place >= 0 and _may_share_kernel(unit.stages[0], found[place]):
            found[place].stages.extend(unit.stages)
        else:
            place = len(found)
            found.append(StageGroup(unit.owner, list(unit.stages)))
            alone = [one for one in where if asked[one] == 1 and one not in outputs]
            _inline_producers(found[place], [found[where[one]] for one in alone])
        where.update((stage.target, place) for stage in found[place].stages)
    return found


def _inline_producers(unit: StageGroup, makers: Sequence[StageGroup]) -> None:
    """What makes something for the first stage of a unit, and may as well do so in it."""
    if unit.owner is not None:
        return
    stage = unit.stages[0]
    read = _read_buffers(stage)
    for maker in makers:
        if (
            len(maker.stages) == 1
            and maker.stages[0].target in read
            and _may_be_inlined(maker, stage)
        ):
            unit.stages[:0] = maker.stages
            maker.stages.clear()


def _all_read(unit: StageGroup) -> set[Buffer]:
    return set[Buffer]().union(*map(_read_buffers, unit.stages))


def _may_be_inlined(maker: StageGroup, stage: KernelStage) -> bool:
    """Whether what is made, and nothing else with it, may be made where it is summed up."""
    (made,) = maker.stages
    if (
        maker.owner is not None
        or stage.fold is not ReductionKind.SUM
        or not is_read_as_written(unify_indices([made, stage]))
    ):
        return False
    operations = [one.operation for one in walk(made.value) if isinstance(one, Apply)]
    easily = len(operations) <= _MOST_SHARED_STAGES and EXPENSIVE_OPERATIONS.isdisjoint(operations)
    more = math.prod(made.target.shape) > math.prod(stage.target.shape)
    most = max(made.loads, key=lambda one: math.prod(one.buffer.shape), default=None)
    wider = most is not None and BYTES[made.target.dtype] > BYTES[most.buffer.dtype]
    return made.fold is ReductionKind.NONE and easily and more and wider


def _read_buffers(stage: KernelStage) -> set[Buffer]:
    return {load.buffer for load in stage.loads}


def _may_share_kernel(stage: KernelStage, unit: StageGroup) -> bool:
    stages = unify_indices([*unit.stages, stage])
    if unit.owner is not None or not is_read_as_written(stages):
        return False
    own, folds = stages[-1], [one for one in stages if one.fold is not ReductionKind.NONE]
    if own.fold is ReductionKind.NONE and (not folds or set(own.free) <= set(folds[0].free)):
        return True
    return _chained(stages, folds)


def _chained(stages: Sequence[KernelStage], folds: Sequence[KernelStage]) -> bool:
    """Whether everything goes along the same rows, and only folds or fills one row."""
    rows = set(folds[0].free) if folds else set(stages[0].free)
    along = {one for fold in folds for one in fold.folded}
    if any(set(fold.free) != rows for fold in folds):
        return False
    if any(not rows <= set(one.free) <= rows | along for one in stages):
        return False
    return math.prod(one.size for one in along) <= _ROW


pass


_LETTERS = "ijklmnopqrstuvwxyz"


def lower(program: Program) -> Module:
    """The program's kernels. All its sizes have to be known."""
    inputs = [_buffer(one.parameter("name"), one) for one in program.inputs]
    values = _ProgramEvaluation(program, inputs).outputs
    names = _Names(one.name for one in inputs)
    wanted: dict[TensorValue, Buffer] = {}
    for number, (term, value) in enumerate(zip(program.outputs, values, strict=True)):
        if value not in wanted and not isinstance(value.what, InputValue):
            name = "out" if len(program.outputs) == 1 else f"out{number}"
            wanted[value] = _buffer(names.take(name), term)
    stager = StageBuilder(wanted, names.another)
    groups = [unit.stages for unit in group_kernels(stager.units, wanted.values()) if unit.stages]
    outputs = tuple(
        value.what.buffer if isinstance(value.what, InputValue) else wanted[value]
        for value in values
    )
    kernels = _kernels(program.name, groups, outputs, stager.fresh)
    return Module(program.name, tuple(inputs), outputs, kernels)


class _ProgramEvaluation:
    """The program in values; what a custom kernel does belongs to it."""

    def __init__(self, program: Program, inputs: Sequence[Buffer]) -> None:
        self._algebra = ValueAlgebra()
        self._values = {
            term: self._algebra.make(InputValue(buffer), (), buffer.shape, buffer.dtype)
            for term, buffer in zip(program.inputs, inputs, strict=True)
        }
        self._tiles: dict[Custom, dict[Term, TensorValue]] = {}
        for term in program.terms():
            if term not in self._values and term.place in (Place.DEVICE, Place.ANYWHERE):
                made = self._result if term.operator is RESULT else self._step
                self._values[term] = made(term, self._values)
        self.outputs = [self._values[output] for output in program.outputs]

    def _step(self, term: Term, values: Mapping[Term, TensorValue]) -> TensorValue:
        if term.operator is LITERAL:
            return self._algebra.constant(term.parameter("value"))
        turned = term.operator.name == "min" and term.dtype is DType.I32
        algebra = self._algebra.complementing() if turned else self._algebra
        operands = [values[argument] for argument in term.arguments]
        found = step(term, algebra, operands, as_written=True)
        weak = DType.WEAK in (found.dtype, term.dtype)
        return found if weak else self._algebra.cast(found, term.dtype)

    def _result(self, term: Term, values: Mapping[Term, TensorValue]) -> TensorValue:
        kernel: Custom = term.parameter("kernel")
        self._algebra.owner = kernel
        if kernel not in self._tiles:
            tiles = dict(values)
            for one in kernel.body:
                tiles[one] = self._step(one, tiles)
            self._tiles[kernel] = tiles
        stored = self._step(term, self._tiles[kernel])
        found = self._algebra.make(StoredValue(), (stored,), stored.shape, stored.dtype)
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
    return Buffer(name, dtype, tuple(map(known_shape, term.shape)))


def _kernels(
    name: str, groups: Sequence[Sequence[KernelStage]], outputs: Sequence[Buffer], fresh: FreshIndex
) -> tuple[TileKernel, ...]:
    """One for each group; what it fills is its output where another or the caller reads it."""
    found, reading = [], [set(_read(group)) for group in groups]
    for number, group in enumerate(groups):
        read = set[Buffer]().union(*reading[:number], *reading[number + 1 :])
        fixed = read | set(outputs)
        stages = order_scratch_axes(unify_indices(tile_scratch(group, fixed, fresh)), fixed)
        filled = {stage.target: None for stage in stages}
        inputs = tuple(buffer for buffer in _read(stages) if buffer not in filled)
        stored = tuple(buffer for buffer in filled if buffer in fixed)
        own = name if len(groups) == 1 else f"{name}_{number}"
        found.append(_named(TileKernel(own, inputs, stored, tuple(stages))))
    return tuple(found)


def _read(stages: Sequence[KernelStage]) -> list[Buffer]:
    return list(dict.fromkeys(load.buffer for stage in stages for load in stage.loads))


def _named(kernel: TileKernel) -> TileKernel:
    """With short names for the indices."""
    names = {one: LoopIndex(_name(number), one.size) for number, one in enumerate(kernel.indices)}
    stages = tuple(rename_indices(stage, names) for stage in kernel.stages)
    return TileKernel(kernel.name, kernel.inputs, kernel.outputs, stages)


def _name(number: int) -> str:
    again, letter = divmod(number, len(_LETTERS))
    return f"{_LETTERS[letter]}{again or ''}"
