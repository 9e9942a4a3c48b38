"""The value of an expression at one element, or for all lanes of a vector."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import replace

from ....tensor.types import DType
from ...ir import (
    Apply,
    BoundedValue,
    Buffer,
    BufferLoad,
    Constant,
    Expression,
    KernelStage,
    LoopIndex,
    Operation,
    Position,
    PositionValue,
    Round,
    used_indices,
    walk,
)
from ...ir.simplification import INTEGER_OPERATIONS, is_int32, is_made_of_literals
from ...llvm.arithmetic import Arithmetic
from ...llvm.builder import LlvmValue
from ...llvm.scalars.catalogue import ROUNDED, SHORT
from ..prepare.precision import is_made_of_sums
from .access import BufferAccess
from .addressing import LaneAddress


class ExpressionEmitter:
    """Computes expressions where a writer stands."""

    def __init__(
        self,
        access: BufferAccess,
        arithmetic: Arithmetic,
        working: str,
        sums: Set[Buffer] = frozenset(),
        known: tuple[BufferLoad, LlvmValue] | None = None,
        maps: bool = False,
    ) -> None:
        self.access = access
        self.arithmetic = arithmetic
        self._vectors = arithmetic.vectors
        self._working = working
        """What numbers that are not whole are written in."""
        self._sums = sums
        """Buffers that hold sums of floats, or what was made of some."""
        self._known = known
        self._maps = maps
        """Whether what all lanes share is the same for many of them."""

    def knowing(self, load: BufferLoad, value: LlvmValue) -> ExpressionEmitter:
        """The same where what is to be loaded is in a register already."""
        return ExpressionEmitter(
            self.access, self.arithmetic, self._working, self._sums, (load, value)
        )

    def through(self, access: BufferAccess) -> ExpressionEmitter:
        """The same where other things are known of where buffers lie."""
        return ExpressionEmitter(
            access, self.arithmetic, self._working, self._sums, self._known, self._maps
        )

    def value(self, expression: Expression, spot: LaneAddress) -> LlvmValue:
        match expression:
            case Constant(value):
                return self._vectors.constant(
                    value, "i32" if _is_integer_literal(value) else self._working
                )
            case PositionValue(position):
                return self._count(position, spot)
            case BufferLoad() if self._known and self._known[0] == expression:
                return self._known[1]
            case BufferLoad():
                stored = self.access.stored(expression, spot)
                return self.arithmetic.widened(stored, expression.buffer.dtype)
            case Apply(operation, (argument,)) if self._is_rounded(operation, argument):
                operand = self.arithmetic.convert(self.value(argument, spot), "float")
                return self.arithmetic.function(ROUNDED[operation], [operand], DType.F32)
            case Apply(Operation.ADD):
                return self._added(expression, spot)
            case Apply(_, arguments):
                return self._applied(expression, self._operands(arguments, spot))
            case Round(value, dtype):
                return self.arithmetic.rounded(self.wanted(value, dtype, spot), dtype)
            case BoundedValue():
                return self._within(expression, spot)

    def _operands(self, arguments: Sequence[Expression], spot: LaneAddress) -> list[LlvmValue]:
        return self._meeting(arguments, [self.value(one, spot) for one in arguments])

    def _applied(self, expression: Apply, operands: Sequence[LlvmValue]) -> LlvmValue:
        operation, arguments = expression.operation, expression.arguments
        if operation in INTEGER_OPERATIONS and is_made_of_literals(expression):  # floats, maybe
            operands = [self.arithmetic.convert(one, "double") for one in operands]
        if operation is Operation.DIVIDE:
            return self._divided(operands, arguments[1])
        return self.arithmetic.apply(operation, operands, self._working)

    def _added(self, expression: Apply, spot: LaneAddress) -> LlvmValue:
        """A product is added by one instruction, if it is as inexact as sums are.

        Others are rounded as they stand, and so are both where one is the opposite of something:
        what is equal has no difference.
        """
        arguments = expression.arguments
        product = next((one for each in arguments if (one := self._of_sums(each))), None)
        if product is None or any(map(_is_negation, arguments)):
            return self._applied(expression, self._operands(arguments, spot))
        other = arguments[arguments[0] is product]
        # Each is computed once, whatever becomes of it: sums may be nested deep.
        operands, value = self._operands(product.arguments, spot), self.value(other, spot)
        factors = self._factors(product, operands)
        found = factors[0] if factors else self._applied(product, operands)
        found, total = self._meeting([product, other], [found, value])
        if factors:
            return self.arithmetic.multiplied(total, factors)
        return self.arithmetic.apply(Operation.ADD, [found, total], self._working)

    def _of_sums(self, expression: Expression) -> Apply | None:
        """The same, if it may be a product of floats that is made of sums."""
        match expression:
            case Apply(Operation.MULTIPLY):
                made = is_made_of_sums(expression, self._sums)
            case Apply(Operation.DIVIDE, (_, divisor)):
                made = is_made_of_sums(divisor, self._sums)
            case _:
                return None
        return expression if made and self._working == "float" else None

    def _factors(self, product: Apply, operands: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
        """Of a product of floats, or of a quotient that is one; none of any other."""
        if product.operation is Operation.MULTIPLY:
            scalars = {one.scalar for one in operands}
            return operands if "float" in scalars <= {"float", "i32"} else ()
        if not self._by_one(*operands):
            return ()
        above, inverse, _ = self.arithmetic.inverted(*operands, root=_is_root(product.arguments[1]))
        return above, inverse

    def _meeting(
        self, arguments: Sequence[Expression], values: Sequence[LlvmValue]
    ) -> list[LlvmValue]:
        """Numbers are as precise as what they meet; too large for whole ones, they are doubles."""
        pairs = list(zip(arguments, values, strict=True))
        met = {value.scalar for one, value in pairs if not is_made_of_literals(one)}
        if "float" in met and "double" not in met:
            return [
                self.arithmetic.convert(value, "float") if value.scalar == "double" else value
                for value in values
            ]
        if not any(value.scalar == "i32" and not is_made_of_literals(one) for one, value in pairs):
            return list(values)
        return [
            self._vectors.constant(one.value, "double")
            if isinstance(one, Constant) and not is_int32(one.value)
            else value
            for one, value in pairs
        ]

    def wanted(self, expression: Expression, dtype: DType, spot: LaneAddress) -> LlvmValue:
        """The value, only as exact as rounding it to a type needs."""
        short = dtype is DType.BF16 and self._working == "float"
        match expression:
            case Apply(operation, (argument,)) if short and operation in SHORT:
                operand = self.arithmetic.convert(self.value(argument, spot), "float")
                return self.arithmetic.function(operation, [operand], dtype)
        return self.value(expression, spot)

    def _divided(self, operands: Sequence[LlvmValue], divisor: Expression) -> LlvmValue:
        """By one for many: exact to the last bit, or as inexact as sums are. Or each by its own."""
        if isinstance(divisor, Constant):
            found = self.arithmetic.over_number(operands[0], divisor.value)
            if found is not None:
                return found
        if not self._by_one(*operands):
            return self.arithmetic.apply(Operation.DIVIDE, operands, self._working)
        exact = not is_made_of_sums(divisor, self._sums)
        return self.arithmetic.quotients(*operands, exact=exact, root=_is_root(divisor))

    def _by_one(self, dividend: LlvmValue, divisor: LlvmValue) -> bool:
        """Whether many floats are divided by one that others are divided by as well."""
        floats = dividend.scalar == divisor.scalar == "float"
        return self._maps and floats and divisor.lanes == 1 < dividend.lanes

    def _is_rounded(self, operation: Operation, argument: Expression) -> bool:
        """Whether a function is of sums, and there is one for what was rounded."""
        return (
            operation in ROUNDED
            and self._working == "float"
            and is_made_of_sums(argument, self._sums)
        )

    def store(
        self, target: Buffer, at: tuple[Position, ...], value: LlvmValue, spot: LaneAddress
    ) -> LlvmValue:
        """Of a value of any type, the same in all lanes or not; gives it as it is stored."""
        spread = self._vectors.spread(value, spot.lanes)
        stored = self.arithmetic.narrowed(spread, target.dtype)
        self.access.store(target, at, stored, spot)
        return stored

    def fill(self, stage: KernelStage, spot: LaneAddress) -> LlvmValue:
        """Stores what a stage maps to; gives it as it is stored."""
        value = self.wanted(stage.value, stage.target.dtype, spot)
        return self.store(stage.target, stage.at, value, spot)

    def _count(self, position: Position, spot: LaneAddress) -> LlvmValue:
        places = self.access.locator.all(position, spot)
        if not places.text.startswith("%"):
            return LlvmValue(places.text, "i32")
        return self.arithmetic.cast("trunc", places, "i32")

    def _within(self, expression: BoundedValue, spot: LaneAddress) -> LlvmValue:
        inside = self._inside(expression, spot)
        true = self._vectors.constant(True, "i1", inside.lanes)
        outside = self._vectors.two("xor", inside, true)
        value = self.value(expression.value, self._only(spot, inside))
        otherwise = self.value(expression.otherwise, self._only(spot, outside))
        either = self._meeting([expression.value, expression.otherwise], [value, otherwise])
        return self.arithmetic.apply(Operation.SELECT, [inside, *either])

    def _inside(self, expression: BoundedValue, spot: LaneAddress) -> LlvmValue:
        found = LlvmValue("true", "i1")
        for position, low, high in expression.limits:
            places = self.access.locator.all(position, spot)
            for how, limit in (("sge", low), ("slt", high)):
                edge = self._vectors.constant(limit, "i64", places.lanes)
                text = f"icmp {how} {places}, {edge.text}"
                truth = self._vectors.writer.pure(text, "i1", places.lanes)
                found = self._vectors.both(found, truth)
        return found

    def _only(self, spot: LaneAddress, where: LlvmValue) -> LaneAddress:
        """The lanes that count, of those where something holds."""
        mask = self._vectors.spread(where, spot.lanes)
        if spot.mask is not None:
            mask = self._vectors.both(mask, spot.mask)
        return replace(spot, mask=mask, guarded=True)


def lane_invariant_loads(stage: KernelStage, along: LoopIndex) -> list[BufferLoad]:
    """What a stage that maps reads for all lanes alike: it is read once, before loops."""
    if any(isinstance(one, BoundedValue) for one in walk(stage.value)):
        return []
    others = [one for one in stage.loads if one.buffer != stage.target]
    return [one for one in others if along not in used_indices(one)]


def _is_negation(expression: Expression) -> bool:
    """Whether it is less something, as it stands."""
    match expression:
        case Apply(Operation.NEGATIVE):
            return True
        case Apply(Operation.MULTIPLY, arguments):
            return any(isinstance(one, Constant) and one.value < 0 for one in arguments)
    return False


def _is_root(expression: Expression) -> bool:
    return isinstance(expression, Apply) and expression.operation is Operation.SQRT


def _is_integer_literal(value: float) -> bool:
    """Whether a number can be written as a whole one: zero below zero cannot."""
    if value == 0:
        return math.copysign(1, value) > 0
    return float(value).is_integer() and is_int32(value)
