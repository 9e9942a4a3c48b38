"""Stages of the tile IR, written from the value graph: one for each stored value.

From a graph of values to stages: each value that is kept fills a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...tensor.mugraph import Kernel
from ...tensor.types import HALVES, DType
from ..ir import (
    Affine,
    Apply,
    Buffer,
    BufferLoad,
    Constant,
    Expression,
    KernelStage,
    LoopIndex,
    Operation,
    Position,
    PositionValue,
    ReductionKind,
    index,
    indices,
    used_indices,
    walk,
)
from ..ir.affine_maps import ZERO, bounds, position_sum, shifted
from ..ir.index_maps import AxisPositions, Move, broadcast_places, replace_axis
from ..ir.simplification import (
    as_integer_literals,
    bounded,
    fold_cast,
    fold_operation,
    is_cheap_as_load,
    is_made_of_integer_literals,
)
from ..passes.reduction_split import (
    joining_stage,
    split_at_condition,
    split_stages,
    without_unused_reduction_indices,
)
from ..passes.reindexing import Layout, StageDraft, fuse_index_pair, split_divided_index
from .materialization import EXPENSIVE_OPERATIONS, MaterializationPlan
from .value_graph import (
    Cast,
    Concatenation,
    InputValue,
    LiteralValue,
    MatmulProduct,
    Padding,
    Pointwise,
    Ramp,
    ReductionValue,
    StoredValue,
    TensorValue,
)


class ValueStore(Protocol):
    """Where values are kept."""

    def __contains__(self, value: TensorValue) -> bool:
        """Whether a value has its buffer already."""

    def load(self, value: TensorValue, at: AxisPositions) -> BufferLoad:
        """An element of a value, which is kept from now on."""


@dataclass(slots=True)
class StageBody:
    """The stage being written: the indices that it runs along."""

    running: set[LoopIndex]
    folded: list[LoopIndex] = field(default_factory=list)
    fold: ReductionKind = ReductionKind.NONE


class StageWriter:
    """Writes the expressions of stages, and has kept what they are to load."""

    def __init__(
        self, uses: MaterializationPlan, shelf: ValueStore, fresh: Callable[[int], LoopIndex]
    ) -> None:
        self._uses = uses
        self._shelf = shelf
        self._fresh = fresh

    def write(self, value: TensorValue, at: AxisPositions) -> tuple[Expression, StageBody]:
        """What a value's stage computes for one place, and what it is folded over."""
        body = StageBody({one for place in at for one in indices(place)})
        return self._top(value, at, body), body

    def _top(self, value: TensorValue, at: AxisPositions, body: StageBody) -> Expression:
        """All of a stage: a fold, if the value is nothing but moved elements of one."""
        match value.what:
            case ReductionValue():
                return self._folded(value, value.what, at, body)
            case StoredValue():
                return self._under(value.arguments[0], at, body)
            case Move():
                return self._under(value.arguments[0], value.what.places(at), body)
        return self._written(value, at, body)

    def _under(self, value: TensorValue, at: AxisPositions, body: StageBody) -> Expression:
        fold, what, places = self._fold(value, at)
        if what is not None and _covers(places, body):
            return self._folded(fold, what, places, body)
        return self._value(value, at, body)

    def _fold(
        self, value: TensorValue, at: AxisPositions
    ) -> tuple[TensorValue, ReductionValue | None, AxisPositions]:
        """The fold that a value consists of, where nothing else is made of it."""
        while isinstance(value.what, Move) and value not in self._shelf:
            if not self._uses.moves(value) and not self._uses.once(value):
                break
            at, value = value.what.places(at), value.arguments[0]
        if (
            isinstance(value.what, ReductionValue)
            and self._uses.once(value)
            and value not in self._shelf
        ):
            return value, value.what, at
        return value, None, at

    def _folded(
        self, value: TensorValue, what: ReductionValue, at: AxisPositions, body: StageBody
    ) -> Expression:
        body.fold, inner = what.fold, list(at)
        for axis in what.axes:
            one = self._fresh(value.arguments[0].shape[axis])
            body.folded.append(one)
            inner[axis] = index(one)
        body.running.update(body.folded)
        return self._inside(value.arguments[0], tuple(inner), body)

    def _inside(self, value: TensorValue, at: AxisPositions, body: StageBody) -> Expression:
        """What is folded; a fold of a fold is one over both."""
        if isinstance(value.what, MatmulProduct):
            operands = [
                self._operand(one, broadcast_places(one.shape, at), body) for one in value.arguments
            ]
            return fold_operation(Operation.MULTIPLY, *operands)
        fold, what, places = self._fold(value, at)
        if what is not None and what.fold is body.fold and _covers(places, body):
            return self._folded(fold, what, places, body)
        return self._value(value, at, body)

    def _operand(self, value: TensorValue, at: AxisPositions, body: StageBody) -> Expression:
        """A product's, which is prepared in a stage of its own where it is met more than once."""
        source, places = value, at
        while self._uses.moves(source):
            assert isinstance(source.what, Move)
            places, source = source.what.places(places), source.arguments[0]
        rounds = isinstance(source.what, Cast) and self._uses.feeds(source)
        if rounds and not _covers(places, body):
            return self._shelf.load(source, places)
        found = self._value(value, at, body)
        if is_cheap_as_load(found) or body.running <= set(used_indices(found)):
            return found
        value, at = source, places
        if isinstance(value.what, Concatenation) and _single(at[value.what.axis]):
            return self._joined(value.arguments, value.what.axis, at, body, self._operand)
        return self._shelf.load(value, at)

    def _value(self, value: TensorValue, at: AxisPositions, body: StageBody) -> Expression:
        if not value.size:
            return Constant(0.0)
        if value in self._shelf or value in self._uses.kept:
            return self._shelf.load(value, at)
        if body.folded and isinstance(value.what, Pointwise) and self._repeats(value, at, body):
            return self._shelf.load(value, at)
        return self._written(value, at, body)

    def _repeats(self, value: TensorValue, at: AxisPositions, body: StageBody) -> bool:
        """Whether a fold would compute the same costly value again and again."""
        found = self._written(value, at, StageBody(body.running))
        return any(map(_is_expensive, walk(found))) and not body.running <= set(used_indices(found))

    def _written(self, value: TensorValue, at: AxisPositions, body: StageBody) -> Expression:
        match value.what:
            case InputValue(buffer):
                return BufferLoad(buffer, at)
            case LiteralValue(number):
                return Constant(number)
            case Ramp(axis):
                return PositionValue(at[axis])
            case Pointwise(operation):
                return _applied(operation, value, self._operands(value, at, body))
            case MatmulProduct():
                return fold_operation(Operation.MULTIPLY, *self._operands(value, at, body))
            case Cast():
                (found,) = self._operands(value, at, body)
                return fold_cast(found, value.arguments[0].dtype, value.dtype)
            case Padding():
                return self._padded(value.arguments[0], value.what, at, body)
            case Concatenation(axis):
                return self._joined(value.arguments, axis, at, body, self._value)
            case Move():
                return self._value(value.arguments[0], value.what.places(at), body)
        raise TypeError("a value that is always kept is written only where it is filled")

    def _operands(
        self, value: TensorValue, at: AxisPositions, body: StageBody
    ) -> Iterator[Expression]:
        return (self._value(one, broadcast_places(one.shape, at), body) for one in value.arguments)

    def _padded(
        self, value: TensorValue, what: Padding, at: AxisPositions, body: StageBody
    ) -> Expression:
        place = shifted(at[what.axis], -what.low)
        inside = self._value(value, replace_axis(at, what.axis, place), body)
        return bounded([(place, 0, value.shape[what.axis])], inside, Constant(what.fill))

    def _joined(
        self,
        values: Sequence[TensorValue],
        axis: int,
        at: AxisPositions,
        body: StageBody,
        write: Callable[[TensorValue, AxisPositions, StageBody], Expression],
    ) -> Expression:
        """The first one where it reaches, else those behind it."""
        first, *others = values
        size = first.shape[axis]
        if not others:
            return write(first, at, body)
        behind = replace_axis(at, axis, shifted(at[axis], -size))
        otherwise = self._joined(others, axis, behind, body, write)
        inside = write(first, at, body) if size else Constant(0.0)
        return bounded([(at[axis], 0, size)], inside, otherwise)


def _applied(operation: Operation, value: TensorValue, given: Iterable[Expression]) -> Expression:
    """A function of values, where what is whole may wrap: numbers too, when it runs."""
    operands = _converted_operands(value, given)
    found = fold_operation(operation, *operands)
    beyond = isinstance(found, Constant) and not is_made_of_integer_literals(found)
    if beyond and value.dtype is DType.I32 and all(map(is_made_of_integer_literals, operands)):
        return Apply(operation, tuple(map(as_integer_literals, operands)))
    return found


def _converted_operands(value: TensorValue, operands: Iterable[Expression]) -> list[Expression]:
    """Operands; of literals is made what whole numbers meet as such, and what floats meet."""
    whole = any(one.dtype is DType.I32 for one in value.arguments)
    return [
        as_integer_literals(one)
        if whole and not isinstance(one, Constant) and is_made_of_integer_literals(one)
        else one
        for one in operands
    ]


def _covers(at: AxisPositions, body: StageBody) -> bool:
    """Whether nothing is computed again by a fold in the stage that is at such places."""
    return body.running <= {one for place in at for one in indices(place)}


def _is_expensive(value: Expression) -> bool:
    match value:
        case Apply(operation=Operation.DIVIDE, arguments=(_, Constant())):
            return False
        case Apply():
            return value.operation in EXPENSIVE_OPERATIONS
    return False


def _single(position: Position) -> bool:
    """Whether a place depends on one index, by which a fold can be cut."""
    return isinstance(position, Affine) and [factor for _, factor in position.terms] == [1]


pass


@dataclass(frozen=True, slots=True)
class MaterializedValue:
    """Where a value is kept, and how its axes lie there."""

    buffer: Buffer
    layout: Layout

    def load(self, at: AxisPositions) -> BufferLoad:
        places = (position_sum((at[axis], factor) for axis, factor in own) for own in self.layout)
        return BufferLoad(self.buffer, tuple(places))


@dataclass(slots=True)
class StageGroup:
    """Stages that have to run together, of a custom kernel; or one that stands alone."""

    owner: Kernel | None
    stages: list[KernelStage]


class StageBuilder:
    """Writes the stages of all wanted values, operands first, into `units`."""

    def __init__(self, wanted: Mapping[TensorValue, Buffer], names: Callable[[], str]) -> None:
        self.units: list[StageGroup] = []
        self._wanted = wanted
        self._names = names
        self._uses = MaterializationPlan(list(wanted))
        self._held: dict[TensorValue, MaterializedValue] = {}
        self._open: dict[Kernel, StageGroup] = {}
        self._indices = 0
        self._writer = StageWriter(self._uses, self, self.fresh)
        self._hold_all(None)

    def __contains__(self, value: TensorValue) -> bool:
        return value in self._held

    def load(self, value: TensorValue, at: AxisPositions) -> BufferLoad:
        return self._hold(value).load(at)

    def _hold_all(self, owner: Kernel | None) -> None:
        """What is kept, operands first, so that nothing is far below when it is asked for."""
        for value in self._uses.kept_in(owner):
            self._hold(value)

    def _hold(self, value: TensorValue) -> MaterializedValue:
        if value not in self._held:
            if isinstance(value.what, StoredValue):
                self._run(value.owner)
            else:
                self._fill(value)
        return self._held[value]

    def _run(self, kernel: Kernel | None) -> None:
        """Everything that a custom kernel stores, at once."""
        assert kernel is not None
        self._open[kernel] = StageGroup(kernel, [])
        self._hold_all(kernel)
        for value in self._uses.stored(kernel):
            self._fill(value)
        self.units.append(self._open.pop(kernel))

    def _fill(self, value: TensorValue) -> None:
        at = tuple(index(self.fresh(size)) if size > 1 else ZERO for size in value.shape)
        pinned = value in self._wanted
        axes = [axis for axis, place in enumerate(at) if pinned or place != ZERO]
        layout = tuple(((axis, 1),) for axis in axes)
        if not value.size:
            shape = tuple(value.shape[axis] for axis in axes)
            self._held[value] = MaterializedValue(
                self._wanted.get(value) or self._buffer(value, shape), layout
            )
            return
        written, body = self._writer.write(value, at)
        places = tuple(at[axis] for axis in axes)
        draft = StageDraft(places, layout, pinned, written, tuple(body.folded), body.fold)
        self._held[value] = self._filled(draft, value, self._wanted.get(value))

    def _filled(
        self, draft: StageDraft, value: TensorValue, buffer: Buffer | None
    ) -> MaterializedValue:
        """Does what a draft says, in parts where it has to be."""
        draft = without_unused_reduction_indices(draft, value.dtype)
        if (place := split_at_condition(draft)) is not None:
            loads = [
                self._filled(part, value, None).load(at)
                for part, at in split_stages(draft, place, self.fresh)
            ]
            draft = joining_stage(draft, place, loads)
        draft = split_divided_index(fuse_index_pair(draft, self.fresh), self.fresh)
        if buffer is None:
            shape = tuple(bounds(at)[1] + 1 for at in draft.at)
            buffer = self._buffer(value, shape)
        stage = KernelStage(buffer, draft.at, draft.value, draft.folded, draft.fold)
        self._unit(value).stages.append(stage)
        return MaterializedValue(buffer, draft.layout)

    def _unit(self, value: TensorValue) -> StageGroup:
        """Where a value's stages belong: to its custom kernel, else each stands alone."""
        if value.owner is not None and value.owner in self._open:
            return self._open[value.owner]
        self.units.append(StageGroup(None, []))
        return self.units[-1]

    def _buffer(self, value: TensorValue, shape: tuple[int, ...]) -> Buffer:
        """Half types are kept in 32 bits, but for what products of half types are made of."""
        half = value.dtype in HALVES and not self._uses.feeds(value)
        wide = half or value.dtype is DType.WEAK
        return Buffer(self._names(), DType.F32 if wide else value.dtype, shape)

    def fresh(self, size: int) -> LoopIndex:
        """An index that is in use nowhere."""
        self._indices += 1
        return LoopIndex(f"#{self._indices:06}", size)
