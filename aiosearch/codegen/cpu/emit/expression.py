"""The value of an expression at one element, or for all lanes of a vector.

Most nodes are one LLVM instruction. The rules that are not obvious:

- A literal takes the type of what it meets; one that does not fit i32 makes an integer expression
  f64.
- A product that is computed from float sums is added by fused multiply-add, as its rounding does
  not matter; any other product is rounded before it is added, so that `x * y - y * x` is zero.
- Many elements divided by one value are multiplied by its reciprocal; the quotient is corrected to
  the last bit unless the divisor is a float sum.
- A function that is rounded to bf16, or whose argument is a float sum, has a shorter polynomial.
"""

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
from ...llvm.builder import LlvmValue, constant
from ...llvm.scalars.catalogue import ROUNDED, SHORT
from ..prepare.precision import is_made_of_sums
from .access import BufferAccess
from .addressing import LaneAddress


class ExpressionEmitter:
    """Prints the computation of expressions."""

    def __init__(
        self,
        access: BufferAccess,
        arithmetic: Arithmetic,
        working: str,
        sums: Set[Buffer] = frozenset(),
        loaded: tuple[BufferLoad, LlvmValue] | None = None,
        maps: bool = False,
    ) -> None:
        self.access = access
        self.arithmetic = arithmetic
        self._vectors = arithmetic.vectors
        self._working = working
        """What numbers that are not whole are written in."""
        self._sums = sums
        """Buffers that hold sums of floats, or what was made of some."""
        self._loaded = loaded
        self._maps = maps
        """Whether what all lanes share is the same for many of them."""

    def with_loaded(self, load: BufferLoad, value: LlvmValue) -> ExpressionEmitter:
        """An emitter that takes a `load` from a register instead of from memory."""
        return ExpressionEmitter(
            self.access, self.arithmetic, self._working, self._sums, (load, value)
        )

    def through(self, access: BufferAccess) -> ExpressionEmitter:
        """An emitter with other knowledge of where buffers are."""
        return ExpressionEmitter(
            access, self.arithmetic, self._working, self._sums, self._loaded, self._maps
        )

    def value(self, expression: Expression, spot: LaneAddress) -> LlvmValue:
        """The value of an `expression` at a lane address; a scalar where all lanes agree."""
        match expression:
            case Constant(value):
                return constant(value, "i32" if _is_integer_literal(value) else self._working)
            case PositionValue(position):
                return self._count(position, spot)
            case BufferLoad() if self._loaded and self._loaded[0] == expression:
                return self._loaded[1]
            case BufferLoad():
                stored = self.access.stored(expression, spot)
                return self.arithmetic.widened(stored, expression.buffer.dtype)
            case Apply(operation, (argument,)) if self._is_rounded(operation, argument):
                operand = self.arithmetic.convert(self.value(argument, spot), "float")
                return self.arithmetic.function(ROUNDED[operation], [operand], DType.F32)
            case Apply(Operation.ADD):
                return self._accumulated(expression, spot)
            case Apply(_, arguments):
                return self._applied(expression, self._operands(arguments, spot))
            case Round(value, dtype):
                return self.arithmetic.rounded(self.rounded_value(value, dtype, spot), dtype)
            case BoundedValue():
                return self._within(expression, spot)

    def _operands(self, arguments: Sequence[Expression], spot: LaneAddress) -> list[LlvmValue]:
        """The values of `arguments`, in types that go together."""
        return self._unified(arguments, [self.value(argument, spot) for argument in arguments])

    def _applied(self, expression: Apply, operands: Sequence[LlvmValue]) -> LlvmValue:
        """An operation applied to operands."""
        operation, arguments = expression.operation, expression.arguments
        if operation in INTEGER_OPERATIONS and is_made_of_literals(expression):  # floats, maybe
            operands = [self.arithmetic.convert(operand, "double") for operand in operands]
        if operation is Operation.DIVIDE:
            return self._divided(operands, arguments[1])
        return self.arithmetic.apply(operation, operands, self._working)

    def _accumulated(self, expression: Apply, spot: LaneAddress) -> LlvmValue:
        """A sum of two values; one instruction with a product among them, if that product is as
        inexact as sums are.

        Other products are rounded first. So are both values where one is the negative of something:
        equal values have no difference.
        """
        arguments = expression.arguments
        product = next(
            # The first product decides: the other addend may be a product too, and is rounded.
            (candidate for argument in arguments if (candidate := self._inexact_product(argument))),
            None,
        )
        if product is None or any(map(_is_negation, arguments)):
            return self._applied(expression, self._operands(arguments, spot))
        addend = arguments[arguments[0] is product]
        # Each is computed once, whatever becomes of it: sums may be nested deep.
        operands, value = self._operands(product.arguments, spot), self.value(addend, spot)
        factors = self._factors(product, operands)
        product_value = factors[0] if factors else self._applied(product, operands)
        product_value, total = self._unified([product, addend], [product_value, value])
        if factors:
            return self.arithmetic.multiplied(total, factors)
        return self.arithmetic.apply(Operation.ADD, [product_value, total], self._working)

    def _inexact_product(self, expression: Expression) -> Apply | None:
        """The expression, if it is a product or quotient of floats computed from sums; else
        `None`."""
        match expression:
            case Apply(Operation.MULTIPLY):
                is_inexact = is_made_of_sums(expression, self._sums)
            case Apply(Operation.DIVIDE, (_, divisor)):
                is_inexact = is_made_of_sums(divisor, self._sums)
            case _:
                return None
        return expression if is_inexact and self._working == "float" else None

    def _factors(self, product: Apply, operands: Sequence[LlvmValue]) -> Sequence[LlvmValue]:
        """Two factors of a `product` of floats, or of a quotient by one value; empty for anything
        else."""
        if product.operation is Operation.MULTIPLY:
            scalars = {operand.scalar for operand in operands}
            return operands if "float" in scalars <= {"float", "i32"} else ()
        if not self._by_one(*operands):
            return ()
        above, inverse, _ = self.arithmetic.inverted(*operands, root=_is_root(product.arguments[1]))
        return above, inverse

    def _unified(
        self, arguments: Sequence[Expression], values: Sequence[LlvmValue]
    ) -> list[LlvmValue]:
        """Values of `arguments` with literals as precise as what they meet; those beyond i32 as
        f64."""
        pairs = list(zip(arguments, values, strict=True))
        met = {value.scalar for argument, value in pairs if not is_made_of_literals(argument)}
        if "float" in met and "double" not in met:
            return [
                self.arithmetic.convert(value, "float") if value.scalar == "double" else value
                for value in values
            ]
        if not any(
            value.scalar == "i32" and not is_made_of_literals(argument) for argument, value in pairs
        ):
            return list(values)
        return [
            constant(argument.value, "double")
            if isinstance(argument, Constant) and not is_int32(argument.value)
            else value
            for argument, value in pairs
        ]

    def rounded_value(self, expression: Expression, dtype: DType, spot: LaneAddress) -> LlvmValue:
        """The value, only as exact as rounding it to `dtype` needs."""
        # bf16 keeps 8 significant bits, so a shorter polynomial does; f64 expressions never use it.
        short = dtype is DType.BF16 and self._working == "float"
        match expression:
            case Apply(operation, (argument,)) if short and operation in SHORT:
                operand = self.arithmetic.convert(self.value(argument, spot), "float")
                return self.arithmetic.function(operation, [operand], dtype)
        return self.value(expression, spot)

    def _divided(self, operands: Sequence[LlvmValue], divisor: Expression) -> LlvmValue:
        """A quotient: by a literal, by one value for all lanes, or lane by lane."""
        if isinstance(divisor, Constant):
            quotient = self.arithmetic.over_number(operands[0], divisor.value)
            if quotient is not None:
                return quotient
        if not self._by_one(*operands):
            return self.arithmetic.apply(Operation.DIVIDE, operands, self._working)
        # Correcting the quotient costs two multiply-adds per vector, wasted on a divisor that is
        # inexact itself.
        exact = not is_made_of_sums(divisor, self._sums)
        return self.arithmetic.quotients(*operands, exact=exact, root=_is_root(divisor))

    def _by_one(self, dividend: LlvmValue, divisor: LlvmValue) -> bool:
        """Whether many floats are divided by one value, which others are divided by as well."""
        floats = dividend.scalar == divisor.scalar == "float"
        return self._maps and floats and divisor.lanes == 1 < dividend.lanes

    def _is_rounded(self, operation: Operation, argument: Expression) -> bool:
        """Whether a function's argument is a float sum, and there is a polynomial for such."""
        return (
            operation in ROUNDED
            and self._working == "float"
            and is_made_of_sums(argument, self._sums)
        )

    def store(
        self, target: Buffer, at: tuple[Position, ...], value: LlvmValue, spot: LaneAddress
    ) -> LlvmValue:
        """Stores a `value` of any type, broadcast if need be, and returns it as stored."""
        spread = self._vectors.broadcast(value, spot.lanes)
        stored = self.arithmetic.narrowed(spread, target.dtype)
        self.access.store(target, at, stored, spot)
        return stored

    def fill(self, stage: KernelStage, spot: LaneAddress) -> LlvmValue:
        """Stores the element of an elementwise stage, and returns it as stored."""
        value = self.rounded_value(stage.value, stage.target.dtype, spot)
        return self.store(stage.target, stage.at, value, spot)

    def _count(self, position: Position, spot: LaneAddress) -> LlvmValue:
        """A `position` as i32."""
        places = self.access.locator.all(position, spot)
        if not places.text.startswith("%"):
            return LlvmValue(places.text, "i32")
        return self.arithmetic.vectors.cast("trunc", places, "i32")

    def _within(self, expression: BoundedValue, spot: LaneAddress) -> LlvmValue:
        """The value of a `BoundedValue`: `value` inside the limits, `otherwise` outside."""
        inside = self._inside(expression, spot)
        true = constant(True, "i1", inside.lanes)
        outside = self._vectors.binary("xor", inside, true)
        # Both branches are computed, each under the mask of its own lanes, so neither loads what is
        # out of bounds.
        value = self.value(expression.value, self._only(spot, inside))
        otherwise = self.value(expression.otherwise, self._only(spot, outside))
        either = self._unified([expression.value, expression.otherwise], [value, otherwise])
        return self.arithmetic.apply(Operation.SELECT, [inside, *either])

    def _inside(self, expression: BoundedValue, spot: LaneAddress) -> LlvmValue:
        """Whether each lane is inside the limits."""
        inside = LlvmValue("true", "i1")
        for position, low, high in expression.limits:
            places = self.access.locator.all(position, spot)
            for how, limit in (("sge", low), ("slt", high)):
                edge = constant(limit, "i64", places.lanes)
                text = f"icmp {how} {places}, {edge.text}"
                truth = self._vectors.writer.pure(text, "i1", places.lanes)
                inside = self._vectors.both(inside, truth)
        return inside

    def _only(self, spot: LaneAddress, where: LlvmValue) -> LaneAddress:
        """The lane address, masked to the lanes where a condition holds."""
        mask = self._vectors.broadcast(where, spot.lanes)
        if spot.mask is not None:
            mask = self._vectors.both(mask, spot.mask)
        return replace(spot, mask=mask, guarded=True)


def lane_invariant_loads(stage: KernelStage, along: LoopIndex) -> list[BufferLoad]:
    """Loads of an elementwise stage that are the same for all lanes, to be hoisted out of the loop
    over vectors."""
    # Such a load may be out of bounds unless some lane is inside, so it cannot be hoisted.
    if any(isinstance(node, BoundedValue) for node in walk(stage.value)):
        return []
    loads = [load for load in stage.loads if load.buffer != stage.target]
    return [load for load in loads if along not in used_indices(load)]


def _is_negation(expression: Expression) -> bool:
    """Whether an `expression` subtracts something as it is written."""
    match expression:
        case Apply(Operation.NEGATIVE):
            return True
        case Apply(Operation.MULTIPLY, arguments):
            return any(
                isinstance(argument, Constant) and argument.value < 0 for argument in arguments
            )
    return False


def _is_root(expression: Expression) -> bool:
    """Whether an `expression` is a square root."""
    return isinstance(expression, Apply) and expression.operation is Operation.SQRT


def _is_integer_literal(value: float) -> bool:
    """Whether a number can be an integer literal; -0.0 cannot."""
    if value == 0:
        return math.copysign(1, value) > 0
    return float(value).is_integer() and is_int32(value)
