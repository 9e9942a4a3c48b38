"""From a program, with or without custom kernels, to a module of tile IR kernels.

Problem: which stages become one kernel? Too few and memory carries every intermediate; too many and
loops cannot be shared. And in which type is each intermediate held?

Worked example, `X / sum(exp(X), axis 1)` of f32[8, 64]: one kernel with the stages `t0[i] = sum
over j of exp(X[i, j])` and `out[i, j] = divide(X[i, j], t0[i])`. Both run along the same rows, a
row is small, so row by row nothing leaves the caches. `exp(X @ W) @ V` is two kernels, since the
second reduces over what the first computes for all columns.

Half types are worked on in 32 bits and rounded where the program casts and where an output is
stored, no more often: what lies in between is held in 32 bits, also between kernels, so that errors
stay below those of the program as it is written. Only the operands of matmuls of half types are
stored in the half type, which is what they take.

Invariants: kernels are in an order in which they can run; a kernel reads a buffer that it fills
only at the positions where it was written (`is_read_as_written`), so its stages can share loops.

Cost: `group_kernels` compares each stage with the stages of one kernel.

See docs/why/kernels.md, "The tile IR".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count

from ...tensor.evaluation import step
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
"""A producer of at most so many operations may be computed again for each block of rows of its
consumer. An estimate."""
_ROW = 1 << 16
"""So many elements of a row, at most, are gone through by several reductions of one kernel: 256 KiB
in 32 bits, what a core's second cache has room for."""


def group_kernels(units: Sequence[StageGroup], outputs: Collection[Buffer]) -> list[StageGroup]:
    """Units that are one kernel each, in an order in which they can run; some are empty.

    A custom kernel is one, with all its stages. Elsewhere a reduction starts a kernel, and what is
    computed element by element from it joins it, at the same positions. A reduction of what an
    earlier kernel computes joins that one too, where all reductions in it then have the same free
    indices, the rows, and a row is small: a softmax or a norm is one kernel. A producer that only
    one sum reads is computed in the kernel of that sum, tile by tile, where it is cheap, larger
    than the sum's result and wider in memory than what it is made of: of weights in few bits nobody
    has to write down the widened ones.
    """
    groups: list[StageGroup] = []
    where: dict[Buffer, int] = {}
    # How many units read each buffer: a producer may be moved only into its single reader.
    asked = Counter(buffer for unit in units for buffer in _all_read(unit))
    for unit in units:
        # The latest kernel that the unit reads from: joining an earlier one would read what is not
        # there yet.
        place = max((where.get(b, -1) for s in unit.stages for b in _read_buffers(s)), default=-1)
        if unit.owner is None and place >= 0 and _may_share_kernel(unit.stages[0], groups[place]):
            groups[place].stages.extend(unit.stages)
        else:
            place = len(groups)
            groups.append(StageGroup(unit.owner, list(unit.stages)))
            alone = [buffer for buffer in where if asked[buffer] == 1 and buffer not in outputs]
            _inline_producers(groups[place], [groups[where[buffer]] for buffer in alone])
        where.update((stage.target, place) for stage in groups[place].stages)
    return groups


def _inline_producers(unit: StageGroup, makers: Sequence[StageGroup]) -> None:
    """Moves producers of the first stage of `unit` into it, as far as that pays."""
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
    """The buffers that the stages of `unit` load."""
    return set[Buffer]().union(*map(_read_buffers, unit.stages))


def _may_be_inlined(maker: StageGroup, stage: KernelStage) -> bool:
    """Whether the producer, alone in its group, may be computed where its result is summed up."""
    (producer,) = maker.stages
    if (
        maker.owner is not None
        or stage.reduction is not ReductionKind.SUM
        or not is_read_as_written(unify_indices([producer, stage]))
    ):
        return False
    operations = [part.operation for part in walk(producer.value) if isinstance(part, Apply)]
    easily = len(operations) <= _MOST_SHARED_STAGES and EXPENSIVE_OPERATIONS.isdisjoint(operations)
    larger = math.prod(producer.target.shape) > math.prod(stage.target.shape)
    most = max(producer.loads, key=lambda part: math.prod(part.buffer.shape), default=None)
    # Only a producer that widens is worth repeating: reading its operand again costs fewer bytes
    # than reading its result.
    wider = most is not None and BYTES[producer.target.dtype] > BYTES[most.buffer.dtype]
    return producer.reduction is ReductionKind.NONE and easily and larger and wider


def _read_buffers(stage: KernelStage) -> set[Buffer]:
    return {load.buffer for load in stage.loads}


def _may_share_kernel(stage: KernelStage, unit: StageGroup) -> bool:
    """Whether `stage` may be one more stage of the kernel `unit`."""
    stages = unify_indices([*unit.stages, stage])
    if unit.owner is not None or not is_read_as_written(stages):
        return False
    joining, reductions = (
        stages[-1],
        [candidate for candidate in stages if candidate.reduction is not ReductionKind.NONE],
    )
    if joining.reduction is ReductionKind.NONE and (
        not reductions or set(joining.free) <= set(reductions[0].free)
    ):
        return True
    return _share_rows(stages, reductions)


def _share_rows(stages: Sequence[KernelStage], reductions: Sequence[KernelStage]) -> bool:
    """Whether all stages run along the same rows, and only reduce or fill a row."""
    rows = set(reductions[0].free) if reductions else set(stages[0].free)
    along = {part for reduction in reductions for part in reduction.folded}
    # Reductions over different rows would need the loops of the kernel to begin anew for each.
    if any(set(reduction.free) != rows for reduction in reductions):
        return False
    if any(not rows <= set(part.free) <= rows | along for part in stages):
        return False
    return math.prod(part.size for part in along) <= _ROW


_LETTERS = "ijklmnopqrstuvwxyz"
"""Names of indices, in order of appearance."""


def lower(program: Program) -> Module:
    """The kernels of a program, all of whose sizes have to be known."""
    inputs = [_buffer(term.parameter("name"), term) for term in program.inputs]
    values = _ProgramEvaluation(program, inputs).outputs
    names = _Names(buffer.name for buffer in inputs)
    buffers: dict[TensorValue, Buffer] = {}
    for number, (term, value) in enumerate(zip(program.outputs, values, strict=True)):
        if value not in buffers and not isinstance(value.what, InputValue):
            name = "out" if len(program.outputs) == 1 else f"out{number}"
            buffers[value] = _buffer(names.take(name), term)
    stager = StageBuilder(buffers, names.another)
    groups = [unit.stages for unit in group_kernels(stager.units, buffers.values()) if unit.stages]
    outputs = tuple(
        value.what.buffer if isinstance(value.what, InputValue) else buffers[value]
        for value in values
    )
    kernels = _kernels(program.name, groups, outputs, stager.fresh)
    return Module(program.name, tuple(inputs), outputs, kernels)


class _ProgramEvaluation:
    """Evaluates the program into values; what a custom kernel computes belongs to it."""

    def __init__(self, program: Program, inputs: Sequence[Buffer]) -> None:
        self._algebra = ValueAlgebra()
        self._values = {
            term: self._algebra.make(InputValue(buffer), (), buffer.shape, buffer.dtype)
            for term, buffer in zip(program.inputs, inputs, strict=True)
        }
        self._tiles: dict[Custom, dict[Term, TensorValue]] = {}
        for term in program.terms():
            if term not in self._values and term.place in (Place.DEVICE, Place.ANYWHERE):
                evaluate = self._result if term.operator is RESULT else self._step
                self._values[term] = evaluate(term, self._values)
        self.outputs = [self._values[output] for output in program.outputs]

    def _step(self, term: Term, values: Mapping[Term, TensorValue]) -> TensorValue:
        """The value of one operator, in the element type that the program says."""
        if term.operator is LITERAL:
            return self._algebra.constant(term.parameter("value"))
        # A minimum is written as minus the maximum of minus x, and the least int32 has no negative.
        complements = term.operator.name == "min" and term.dtype is DType.I32
        algebra = self._algebra.complementing() if complements else self._algebra
        operands = [values[argument] for argument in term.arguments]
        tensor = step(term, algebra, operands, as_written=True)
        # A literal has no type yet; everything else is rounded to what the program says, and no
        # further.
        weak = DType.WEAK in (tensor.dtype, term.dtype)
        return tensor if weak else self._algebra.cast(tensor, term.dtype)

    def _result(self, term: Term, values: Mapping[Term, TensorValue]) -> TensorValue:
        """The value that a custom kernel stores; its body is evaluated once for all results."""
        kernel: Custom = term.parameter("kernel")
        # Values are made for this kernel alone while its body is evaluated, so that nothing outside
        # shares them.
        self._algebra.owner = kernel
        if kernel not in self._tiles:
            tiles = dict(values)
            for inner in kernel.body:
                tiles[inner] = self._step(inner, tiles)
            self._tiles[kernel] = tiles
        stored = self._step(term, self._tiles[kernel])
        result = self._algebra.make(StoredValue(), (stored,), stored.shape, stored.dtype)
        self._algebra.owner = None
        return result


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
    """A kernel for each group; what it fills is its output where another kernel or the caller reads
    it.
    """
    kernels, reading = [], [set(_read(group)) for group in groups]
    for number, group in enumerate(groups):
        # What any other kernel reads has to survive this one, and so is an output with a fixed
        # layout.
        read = set[Buffer]().union(*reading[:number], *reading[number + 1 :])
        fixed = read | set(outputs)
        # Tiling first, as it adds axes and indices; then unification, whose shared indices order
        # the axes.
        stages = order_scratch_axes(unify_indices(tile_scratch(group, fixed, fresh)), fixed)
        filled = {stage.target: None for stage in stages}
        inputs = tuple(buffer for buffer in _read(stages) if buffer not in filled)
        stored = tuple(buffer for buffer in filled if buffer in fixed)
        kernel_name = name if len(groups) == 1 else f"{name}_{number}"
        kernels.append(_named(TileKernel(kernel_name, inputs, stored, tuple(stages))))
    return tuple(kernels)


def _read(stages: Sequence[KernelStage]) -> list[Buffer]:
    """The buffers that `stages` load, each once, in order."""
    return list(dict.fromkeys(load.buffer for stage in stages for load in stage.loads))


def _named(kernel: TileKernel) -> TileKernel:
    """`kernel` with short names for its indices."""
    names = {
        loop_index: LoopIndex(_name(number), loop_index.size)
        for number, loop_index in enumerate(kernel.indices)
    }
    stages = tuple(rename_indices(stage, names) for stage in kernel.stages)
    return TileKernel(kernel.name, kernel.inputs, kernel.outputs, stages)


def _name(number: int) -> str:
    """The name at position `number`: `i` to `z`, then `i1` and so on."""
    again, letter = divmod(number, len(_LETTERS))
    return f"{_LETTERS[letter]}{again or ''}"
