"""Stages of the tile IR, written from the value graph: one for each stored value.

Problem: `MaterializationPlan` says which values get a buffer; each needs a stage, an expression
over loads of other buffers, possibly under a reduction. Whether a chain of moves and reductions is
one stage or several is seen only when it is written.

Worked example: a sum over k of a sum over j of X[i, j, k] is one stage `t[i] = sum over j, k of
X[i, j, k]`. In `X[i, j] / t[i]` the reduction `t` is not all that the stage is made of, so it has a
buffer, which the stage loads.

Method: `StageWriter` walks from a value to its operands and carries the positions at which each is
needed; moves change the positions and write nothing. A reduction opens the body of the stage;
another reduction, or an expensive value that does not depend on all running indices, is asked of
the `ValueStore`, which fills its buffer first.

Invariants: stages come in an order in which they can run (`StageBuilder._materialize` fills
operands before their reader); at most one reduction per stage; every expression depends only on
indices that its stage runs along.

Cost: an expression is as long as the values without a buffer in it, which `MaterializationPlan`
bounds.

See docs/why/kernels.md, "The tile IR".
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
    """Where the values with buffers are."""

    def __contains__(self, value: TensorValue) -> bool:
        """Whether `value` has its buffer already."""

    def load(self, value: TensorValue, at: AxisPositions) -> BufferLoad:
        """An element of `value`, which has a buffer from now on."""


@dataclass(slots=True)
class StageBody:
    """The stage being written: the indices that it runs along, and its reduction."""

    running: set[LoopIndex]
    folded: list[LoopIndex] = field(default_factory=list)
    reduction: ReductionKind = ReductionKind.NONE


class StageWriter:
    """Writes the expressions of stages, and has the `ValueStore` fill what they load."""

    def __init__(
        self, uses: MaterializationPlan, shelf: ValueStore, fresh: Callable[[int], LoopIndex]
    ) -> None:
        self._plan = uses
        self._store = shelf
        self._fresh = fresh

    def write(self, value: TensorValue, at: AxisPositions) -> tuple[Expression, StageBody]:
        """What the stage of `value` computes at `at`, and what it reduces over."""
        body = StageBody({loop_index for place in at for loop_index in indices(place)})
        return self._top(value, at, body), body

    def _top(self, value: TensorValue, at: AxisPositions, body: StageBody) -> Expression:
        """All of a stage: a reduction, if the value is nothing but moved elements of one."""
        match value.what:
            case ReductionValue():
                return self._reduction(value, value.what, at, body)
            case StoredValue():
                return self._reduction_or_value(value.arguments[0], at, body)
            case Move():
                return self._reduction_or_value(value.arguments[0], value.what.places(at), body)
        return self._written(value, at, body)

    def _reduction_or_value(
        self, value: TensorValue, at: AxisPositions, body: StageBody
    ) -> Expression:
        reduction, what, places = self._whole_reduction(value, at)
        # Without `_covers`, the reduction would be computed anew for each value of a running index
        # that its positions do not depend on.
        if what is not None and _covers(places, body):
            return self._reduction(reduction, what, places, body)
        return self._value(value, at, body)

    def _whole_reduction(
        self, value: TensorValue, at: AxisPositions
    ) -> tuple[TensorValue, ReductionValue | None, AxisPositions]:
        """The reduction that a value consists of, where nothing else is made of it; the value, its
        definition and the positions.
        """
        # Moves between a reduction and its reader are only other positions, so the reduction is
        # looked for behind them.
        while isinstance(value.what, Move) and value not in self._store:
            if not self._plan.moves(value) and not self._plan.once(value):
                break
            at, value = value.what.places(at), value.arguments[0]
        if (
            isinstance(value.what, ReductionValue)
            and self._plan.once(value)
            and value not in self._store
        ):
            return value, value.what, at
        return value, None, at

    def _reduction(
        self, value: TensorValue, what: ReductionValue, at: AxisPositions, body: StageBody
    ) -> Expression:
        """Opens the reduction of the stage: each reduced axis gets a new index."""
        body.reduction, inner = what.reduction, list(at)
        for axis in what.axes:
            reduced = self._fresh(value.arguments[0].shape[axis])
            body.folded.append(reduced)
            inner[axis] = index(reduced)
        # From here on an operand must depend on the reduced indices too, or it is repeated for each
        # of them.
        body.running.update(body.folded)
        return self._inside(value.arguments[0], tuple(inner), body)

    def _inside(self, value: TensorValue, at: AxisPositions, body: StageBody) -> Expression:
        """What is reduced; a reduction of a reduction of the same kind is one over both."""
        if isinstance(value.what, MatmulProduct):
            operands = [
                self._operand(operand, broadcast_places(operand.shape, at), body)
                for operand in value.arguments
            ]
            return fold_operation(Operation.MULTIPLY, *operands)
        reduction, what, places = self._whole_reduction(value, at)
        # max of max, and sum of sum, but only if the inner one is needed at every position anew:
        # else it would be computed once for each value of an index that it does not depend on.
        if what is not None and what.reduction is body.reduction and _covers(places, body):
            return self._reduction(reduction, what, places, body)
        return self._value(value, at, body)

    def _operand(self, value: TensorValue, at: AxisPositions, body: StageBody) -> Expression:
        """The operand of a product, prepared in a stage of its own where it is needed more than
        once.
        """
        source, places = value, at
        while self._plan.moves(source):
            assert isinstance(source.what, Move)
            places, source = source.what.places(places), source.arguments[0]
        # A cast into a half type that feeds a matrix product is stored once: converting is not
        # free, and the product would convert each element for every row.
        rounds = isinstance(source.what, Cast) and self._plan.feeds(source)
        if rounds and not _covers(places, body):
            return self._store.load(source, places)
        expression = self._value(value, at, body)
        # An operand of a matmul is read once for each row of the other operand. A load can be
        # repeated; an expression is computed once into a buffer instead.
        if is_cheap_as_load(expression) or body.running <= set(used_indices(expression)):
            return expression
        value, at = source, places
        # Weights side by side: the reduction can be split at their border, so each part is prepared
        # by itself and none is copied.
        if isinstance(value.what, Concatenation) and _single(at[value.what.axis]):
            return self._concatenated(value.arguments, value.what.axis, at, body, self._operand)
        return self._store.load(value, at)

    def _value(self, value: TensorValue, at: AxisPositions, body: StageBody) -> Expression:
        """The expression of a value: a load, where it has a buffer or is worth one here."""
        # An array without elements is never read; any expression does.
        if not value.size:
            return Constant(0.0)
        if value in self._store or value in self._plan.kept:
            return self._store.load(value, at)
        if body.folded and isinstance(value.what, Pointwise) and self._repeats(value, at, body):
            return self._store.load(value, at)
        return self._written(value, at, body)

    def _repeats(self, value: TensorValue, at: AxisPositions, body: StageBody) -> bool:
        """Whether a reduction would compute the same costly value again and again."""
        expression = self._written(value, at, StageBody(body.running))
        return any(map(_is_expensive, walk(expression))) and not body.running <= set(
            used_indices(expression)
        )

    def _written(self, value: TensorValue, at: AxisPositions, body: StageBody) -> Expression:
        """The expression of a value without a buffer."""
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
                (operand,) = self._operands(value, at, body)
                return fold_cast(operand, value.arguments[0].dtype, value.dtype)
            case Padding():
                return self._padded(value.arguments[0], value.what, at, body)
            case Concatenation(axis):
                return self._concatenated(value.arguments, axis, at, body, self._value)
            case Move():
                return self._value(value.arguments[0], value.what.places(at), body)
        raise TypeError("a value that is always kept is written only where it is filled")

    def _operands(
        self, value: TensorValue, at: AxisPositions, body: StageBody
    ) -> Iterator[Expression]:
        return (
            self._value(argument, broadcast_places(argument.shape, at), body)
            for argument in value.arguments
        )

    def _padded(
        self, value: TensorValue, what: Padding, at: AxisPositions, body: StageBody
    ) -> Expression:
        # The operand's own position, which is outside of it where the padding is: `bounded` guards
        # the load.
        place = shifted(at[what.axis], -what.low)
        inside = self._value(value, replace_axis(at, what.axis, place), body)
        return bounded([(place, 0, value.shape[what.axis])], inside, Constant(what.fill))

    def _concatenated(
        self,
        values: Sequence[TensorValue],
        axis: int,
        at: AxisPositions,
        body: StageBody,
        write: Callable[[TensorValue, AxisPositions, StageBody], Expression],
    ) -> Expression:
        """The first of `values` where it reaches, else those behind it."""
        first, *following = values
        size = first.shape[axis]
        if not following:
            return write(first, at, body)
        # Positions behind the first operand, counted from its end.
        behind = replace_axis(at, axis, shifted(at[axis], -size))
        otherwise = self._concatenated(following, axis, behind, body, write)
        inside = write(first, at, body) if size else Constant(0.0)
        return bounded([(at[axis], 0, size)], inside, otherwise)


def _applied(
    operation: Operation, value: TensorValue, arguments: Iterable[Expression]
) -> Expression:
    """A function of values, where whole numbers may wrap: literals too, when it runs."""
    operands = _converted_operands(value, arguments)
    folded = fold_operation(operation, *operands)
    # 2147483647 + 1 of int32 wraps to -2147483648. Folded in float64 it would be 2147483648, so it
    # is left to the machine.
    beyond = isinstance(folded, Constant) and not is_made_of_integer_literals(folded)
    if beyond and value.dtype is DType.I32 and all(map(is_made_of_integer_literals, operands)):
        return Apply(operation, tuple(map(as_integer_literals, operands)))
    return folded


def _converted_operands(value: TensorValue, operands: Iterable[Expression]) -> list[Expression]:
    """Operands, where literals that meet whole numbers are made whole."""
    whole = any(operand.dtype is DType.I32 for operand in value.arguments)
    return [
        as_integer_literals(operand)
        if whole and not isinstance(operand, Constant) and is_made_of_integer_literals(operand)
        else operand
        for operand in operands
    ]


def _covers(at: AxisPositions, body: StageBody) -> bool:
    """Whether the positions use every running index, so that nothing at them is computed twice in
    the stage.
    """
    return body.running <= {loop_index for place in at for loop_index in indices(place)}


def _is_expensive(value: Expression) -> bool:
    """Whether an expression is a function worth a buffer; a division by a constant is a
    multiplication.
    """
    match value:
        case Apply(operation=Operation.DIVIDE, arguments=(_, Constant())):
            return False
        case Apply():
            return value.operation in EXPENSIVE_OPERATIONS
    return False


def _single(position: Position) -> bool:
    """Whether a position depends on one index with factor 1, by which a reduction can be split."""
    return isinstance(position, Affine) and [factor for _, factor in position.terms] == [1]


@dataclass(frozen=True, slots=True)
class MaterializedValue:
    """Where a value is stored, and which of its axes run along each axis of the buffer."""

    buffer: Buffer
    layout: Layout

    def load(self, at: AxisPositions) -> BufferLoad:
        """The element at `at` of the value."""
        places = (
            position_sum((at[axis], factor) for axis, factor in parts) for parts in self.layout
        )
        return BufferLoad(self.buffer, tuple(places))


@dataclass(slots=True)
class StageGroup:
    """Stages that have to run together, of a custom kernel; or one that stands alone."""

    owner: Kernel | None
    stages: list[KernelStage]


class StageBuilder:
    """Writes the stages of all `outputs`, operands first, into `units`."""

    def __init__(self, outputs: Mapping[TensorValue, Buffer], names: Callable[[], str]) -> None:
        self.units: list[StageGroup] = []
        self._outputs = outputs
        self._names = names
        self._plan = MaterializationPlan(list(outputs))
        self._stored: dict[TensorValue, MaterializedValue] = {}
        self._open: dict[Kernel, StageGroup] = {}
        self._indices = 0
        self._writer = StageWriter(self._plan, self, self.fresh)
        self._materialize_all(None)

    def __contains__(self, value: TensorValue) -> bool:
        return value in self._stored

    def load(self, value: TensorValue, at: AxisPositions) -> BufferLoad:
        return self._materialize(value).load(at)

    def _materialize_all(self, owner: Kernel | None) -> None:
        """Stores what is kept, operands first, so that recursion stays shallow."""
        for value in self._plan.kept_in(owner):
            self._materialize(value)

    def _materialize(self, value: TensorValue) -> MaterializedValue:
        if value not in self._stored:
            if isinstance(value.what, StoredValue):
                self._run(value.owner)
            else:
                self._fill(value)
        return self._stored[value]

    def _run(self, kernel: Kernel | None) -> None:
        """Writes everything that a custom kernel stores, as one group."""
        assert kernel is not None
        # While the kernel is open, every value of its body that is asked for gets its stage in it.
        self._open[kernel] = StageGroup(kernel, [])
        self._materialize_all(kernel)
        for value in self._plan.stored(kernel):
            self._fill(value)
        self.units.append(self._open.pop(kernel))

    def _fill(self, value: TensorValue) -> None:
        """Writes the stage of a value and remembers its buffer."""
        at = tuple(index(self.fresh(size)) if size > 1 else ZERO for size in value.shape)
        # The caller sees an output's axes, so they stay in place; a scratch buffer drops axes of
        # size one and may get any layout.
        pinned = value in self._outputs
        axes = [axis for axis, place in enumerate(at) if pinned or place != ZERO]
        layout = tuple(((axis, 1),) for axis in axes)
        if not value.size:
            shape = tuple(value.shape[axis] for axis in axes)
            self._stored[value] = MaterializedValue(
                self._outputs.get(value) or self._buffer(value, shape), layout
            )
            return
        written, body = self._writer.write(value, at)
        places = tuple(at[axis] for axis in axes)
        draft = StageDraft(places, layout, pinned, written, tuple(body.folded), body.reduction)
        self._stored[value] = self._write_stages(draft, value, self._outputs.get(value))

    def _write_stages(
        self, draft: StageDraft, value: TensorValue, buffer: Buffer | None
    ) -> MaterializedValue:
        """The buffer of a draft, written as several stages where a condition splits it."""
        draft = without_unused_reduction_indices(draft, value.dtype)
        # Parts are drafts of their own and may be split again at a further condition.
        if (place := split_at_condition(draft)) is not None:
            loads = [
                self._write_stages(part, value, None).load(at)
                for part, at in split_stages(draft, place, self.fresh)
            ]
            draft = joining_stage(draft, place, loads)
        # Indices are cleaned only now: splits at conditions first shift positions, which decides
        # whether a pair is still flat.
        draft = split_divided_index(fuse_index_pair(draft, self.fresh), self.fresh)
        if buffer is None:
            # The layout may have changed, so the shape is read off the positions.
            shape = tuple(bounds(at)[1] + 1 for at in draft.at)
            buffer = self._buffer(value, shape)
        stage = KernelStage(buffer, draft.at, draft.value, draft.folded, draft.reduction)
        self._unit(value).stages.append(stage)
        return MaterializedValue(buffer, draft.layout)

    def _unit(self, value: TensorValue) -> StageGroup:
        """Where a value's stages belong: to its custom kernel, else each stands alone."""
        if value.owner is not None and value.owner in self._open:
            return self._open[value.owner]
        self.units.append(StageGroup(None, []))
        return self.units[-1]

    def _buffer(self, value: TensorValue, shape: tuple[int, ...]) -> Buffer:
        """A scratch buffer. Half types are stored in 32 bits, but for what products of half types
        are made of.
        """
        half = value.dtype in HALVES and not self._plan.feeds(value)
        wide = half or value.dtype is DType.WEAK
        return Buffer(self._names(), DType.F32 if wide else value.dtype, shape)

    def fresh(self, size: int) -> LoopIndex:
        """An index that is in use nowhere."""
        self._indices += 1
        return LoopIndex(f"#{self._indices:06}", size)
