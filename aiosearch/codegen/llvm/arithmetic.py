"""Scalar operations on values of any number of lanes: conversions, broadcasts, instructions and
calls.

Operands of different types and lanes are unified first, to the widest of both. What LLVM has no
instruction for is a call of a function of `scalars`, which is defined in the same module and
inlined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...tensor.types import HALVES, NARROW, DType
from ..ir import KernelStage, Operation, Round, walk
from ..native.machine import CpuMachine
from .builder import FunctionBuilder, LlvmValue, constant, suffix, typed
from .scalars import Conversion, symbol
from .scalars.catalogue import FunctionRequest, Name
from .vectors import Vectors

WORKING = {
    DType.F64: "double",
    DType.F32: "float",
    DType.F16: "float",
    DType.BF16: "float",
    DType.I32: "i32",
    DType.I8: "i32",
    DType.U8: "i32",
    DType.BOOL: "i32",
}
"""The LLVM type in which each element type is computed."""

_ORDER = ["i1", "i32", "float", "double"]
_CONVERSIONS = {
    ("i1", "i32"): "zext",
    ("i1", "float"): "uitofp",
    ("i1", "double"): "uitofp",
    ("i32", "float"): "sitofp",
    ("i32", "double"): "sitofp",
    ("float", "double"): "fpext",
    ("double", "float"): "fptrunc",
}

_FLOAT_INSTRUCTIONS = {
    Operation.ADD: "fadd",
    Operation.SUBTRACT: "fsub",
    Operation.MULTIPLY: "fmul",
    Operation.DIVIDE: "fdiv",
}
"""Instructions of float operations. A product and the sum behind it are fused only where products
are summed: fusing depends on the surroundings, so equal expressions in two places could differ. A
softmax subtracts from scores their maximum, which has to be one of them to the last bit.
"""
_INTEGER_INSTRUCTIONS = {Operation.ADD: "add", Operation.SUBTRACT: "sub", Operation.MULTIPLY: "mul"}
COMPARE = {
    Operation.LESS: ("fcmp olt", "icmp slt"),
    Operation.LESS_EQUAL: ("fcmp ole", "icmp sle"),
    Operation.EQUAL: ("fcmp oeq", "icmp eq"),
    Operation.NOT_EQUAL: ("fcmp une", "icmp ne"),
}
"""Comparison instructions of floats and of integers."""
_RECIPROCAL_EXPONENT_MARGIN = 24
"""Binary exponents between a divisor and the largest or smallest normal f32 below which it is
scaled before its reciprocal is computed."""
_EXTREMES = {Operation.MAXIMUM: "smax", Operation.MINIMUM: "smin"}
"""Intrinsics of maximum and minimum of integers."""


def working_type(stage: KernelStage) -> str:
    """The LLVM type in which a `stage`'s floats are computed: the widest that it reads, writes or
    rounds to."""
    dtypes = {stage.target.dtype, *(load.buffer.dtype for load in stage.loads)}
    dtypes |= {node.dtype for node in walk(stage.value) if isinstance(node, Round)}
    return "double" if DType.F64 in dtypes else "float"


class Arithmetic:
    """Prints arithmetic for a `machine`."""

    def __init__(self, writer: FunctionBuilder, machine: CpuMachine) -> None:
        self.vectors = Vectors(writer)
        self._writer = writer
        self._machine = machine
        self.requests: set[FunctionRequest] = set()
        """Functions of `scalars` that the text needs."""

    def apply(
        self, operation: Operation, operands: Sequence[LlvmValue], working: str = "float"
    ) -> LlvmValue:
        """The result of an operation on operands of any types and lanes; `working` is the float
        type for integers."""
        if operation is Operation.SELECT:
            return self._select(*operands)
        # Before the choice of instruction, as an integer that meets a float is a float.
        same = self._unify(operands)
        if operation in COMPARE:
            return self._comparison(operation, same)
        if same[0].scalar == "i1":
            same = [self.convert(operand, "i32") for operand in same]
        if (
            same[0].scalar == "i32"
            and (integer := self._integer_result(operation, same)) is not None
        ):
            return integer
        return self._float_result(operation, [self._float(operand, working) for operand in same])

    def multiplied(self, total: LlvmValue, factors: Sequence[LlvmValue]) -> LlvmValue:
        """A product added to a `total`, by fused multiply-add where the machine has it."""
        left, right, total = self._unify([*factors, total])
        # Two roundings instead of one; error bounds count both.
        if not self._machine.fma:
            return self.apply(Operation.ADD, [total, self.apply(Operation.MULTIPLY, [left, right])])
        return self.vectors.intrinsic("fma", left, right, total)

    def quotients(
        self, dividend: LlvmValue, divisor: LlvmValue, *, exact: bool, root: bool
    ) -> LlvmValue:
        """Quotients of many floats by one, as products with its reciprocal.

        Example: x = 7, divisor 3. The reciprocal r is 0.333333343, the product p = 2.33333349; what
        is missing, x - 3 p, is -4.8e-7, and p plus that times r rounds to 2.33333325, the correctly
        rounded quotient. With `exact` false the product stays. Zero, infinite and NaN products are
        right already and are not corrected; nor is anything where the missing part is no smaller
        than x.
        """
        above, inverse, below = self.inverted(dividend, divisor, root=root)
        product = self.vectors.binary("fmul", above, inverse)
        if not exact:
            return product
        minus = self.vectors.negate(product)
        left = self.vectors.intrinsic("fma", minus, below, above)
        corrected = self.vectors.intrinsic("fma", left, inverse, product)
        over, all_ = (self.vectors.intrinsic("fabs", value) for value in (left, above))
        # False for NaN too, so an infinite quotient stays.
        less = self.vectors.compare("fcmp olt", over, all_)
        return self.vectors.select(less, corrected, product)

    def inverted(
        self, dividend: LlvmValue, divisor: LlvmValue, *, root: bool
    ) -> tuple[LlvmValue, LlvmValue, LlvmValue]:
        """Two factors whose product is nearly the quotient, and what the second is the reciprocal
        of.

        A square root is never near the ends of the range, so with `root` nothing is scaled.
        """
        lanes, unit = dividend.lanes, constant(1.0, "float")
        if not root:
            factor, divisor = self._scaled_divisor(divisor)
            dividend = self.vectors.binary("fmul", dividend, self.vectors.broadcast(factor, lanes))
        # One division for all lanes: LLVM hoists it out of the loop, as the divisor does not change
        # there.
        inverse = self.vectors.broadcast(self.vectors.binary("fdiv", unit, divisor), lanes)
        return dividend, inverse, self.vectors.broadcast(divisor, lanes)

    def over_number(self, dividend: LlvmValue, number: float) -> LlvmValue | None:
        """Quotients by a literal; `None` where LLVM itself replaces the division, as for powers of
        two."""
        usual = math.isfinite(number) and abs(math.frexp(number)[0]) not in (0.0, 0.5)
        if not (self._machine.fma and usual and dividend.scalar == "float" and dividend.lanes > 1):
            return None
        divisor = constant(number, "float")
        return self.quotients(dividend, divisor, exact=True, root=False)

    def _scaled_divisor(self, divisor: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
        """A power of two, and the `divisor` times it, whose reciprocal is a normal number."""
        size = self.vectors.intrinsic("fabs", divisor)
        usual, small, large = (
            constant(number, "float")
            for number in (1.0, 2.0**_RECIPROCAL_EXPONENT_MARGIN, 2.0**-_RECIPROCAL_EXPONENT_MARGIN)
        )
        least, most = (
            constant(number, "float")
            for number in (
                2.0 ** (_RECIPROCAL_EXPONENT_MARGIN - 126),
                2.0 ** (126 - _RECIPROCAL_EXPONENT_MARGIN),
            )
        )
        high = self.vectors.compare("fcmp ogt", size, most)
        low = self.vectors.compare("fcmp olt", size, least)
        factor = self.vectors.select(high, large, self.vectors.select(low, small, usual))
        return factor, self.vectors.binary("fmul", divisor, factor)

    def convert(self, value: LlvmValue, scalar: str) -> LlvmValue:
        """The `value` in another working type; towards zero, saturating, from float to integer."""
        if value.scalar == scalar:
            return value
        if scalar == "i1":
            return self._comparison(Operation.NOT_EQUAL, [value, self._zero_of(value)])
        if scalar == "i32" and value.is_float:
            kinds = suffix(scalar, value.lanes), suffix(value.scalar, value.lanes)
            name = f"llvm.fptosi.sat.{'.'.join(kinds)}"
            return self._writer.call(name, scalar, value.lanes, [str(value)])
        return self.vectors.cast(_CONVERSIONS[value.scalar, scalar], value, scalar)

    def widened(self, stored: LlvmValue, dtype: DType) -> LlvmValue:
        """A `stored` value in its working type."""
        if dtype in HALVES:
            return self.function(Conversion.WIDEN, [stored], dtype, "float")
        if dtype is DType.BOOL:
            return self.vectors.compare("icmp ne", stored, constant(0, "i8", stored.lanes))
        if dtype in NARROW:
            return self.vectors.cast("sext" if dtype is DType.I8 else "zext", stored, "i32")
        return stored

    def half(self, pairs: LlvmValue, *, second: bool) -> LlvmValue:
        """The first or second of interleaved bf16 pairs, as f32."""
        lanes = pairs.lanes // 2
        both = self._writer.pure(f"bitcast {pairs} to {typed('i32', lanes)}", "i32", lanes)
        # A bf16 is the upper half of an f32: the second of a pair only has to lose its lower half.
        how, number = ("and", -(1 << 16)) if second else ("shl", 16)
        widened = self.vectors.binary(how, both, constant(number, "i32", lanes))
        return self.vectors.cast("bitcast", widened, "float")

    def narrowed(self, value: LlvmValue, dtype: DType) -> LlvmValue:
        """A `value` in its stored type."""
        if dtype is DType.BOOL:
            return self.vectors.cast("zext", self.convert(value, "i1"), "i8")
        worked = self.convert(value, WORKING[dtype])
        # The instruction exists for 8 and 16 lanes.
        if dtype is DType.BF16 and self._machine.bf16_dot and worked.lanes in (8, 16):
            return self._to_bf16_by_instruction(worked)
        if dtype in HALVES:
            return self.function(Conversion.NARROW, [worked], dtype, "i16")
        if dtype in NARROW:
            return self.vectors.cast("trunc", worked, "i8")
        return worked

    def rounded(self, value: LlvmValue, dtype: DType) -> LlvmValue:
        """A `value` rounded to an element type, in its working type."""
        return self.widened(self.narrowed(value, dtype), dtype)

    def function(
        self, name: Name, operands: Sequence[LlvmValue], dtype: DType, scalar: str = ""
    ) -> LlvmValue:
        """A call of a function of `scalars`."""
        lanes = operands[0].lanes
        self.requests.add((name, lanes, dtype))
        result = scalar or operands[0].scalar
        arguments = ", ".join(map(str, operands))
        text = f"call {typed(result, lanes)} {symbol(name, lanes, dtype)}({arguments})"
        return self._writer.pure(text, result, lanes)

    def _unify(self, operands: Sequence[LlvmValue]) -> list[LlvmValue]:
        """The `operands` with as many lanes, and in the widest type among them."""
        lanes = max(operand.lanes for operand in operands)
        scalar = max((operand.scalar for operand in operands), key=_ORDER.index)
        return [
            self.vectors.broadcast(self.convert(operand, scalar), lanes) for operand in operands
        ]

    def _select(self, where: LlvmValue, left: LlvmValue, right: LlvmValue) -> LlvmValue:
        """The second operand where the first is true, else the third."""
        left, right = self._unify([left, right])
        lanes = max(where.lanes, left.lanes)
        truth, left, right = (
            self.vectors.broadcast(operand, lanes)
            for operand in (self.convert(where, "i1"), left, right)
        )
        return self.vectors.select(truth, left, right)

    def _comparison(self, operation: Operation, same: Sequence[LlvmValue]) -> LlvmValue:
        """The result of a comparison of unified operands."""
        first, second = same
        how = COMPARE[operation][0 if first.is_float else 1]
        if first.scalar == "i1":
            # False is less than true, but as a signed bit, true is -1.
            how = how.replace("slt", "ult").replace("sle", "ule")
        return self.vectors.compare(how, first, second)

    def _integer_result(self, operation: Operation, same: Sequence[LlvmValue]) -> LlvmValue | None:
        """The result of an operation on integers; `None` for functions of floats."""
        first = same[0]
        match operation:
            case _ if operation in _INTEGER_INSTRUCTIONS:
                return self.vectors.binary(_INTEGER_INSTRUCTIONS[operation], *same)
            case _ if operation in _EXTREMES:
                return self.vectors.intrinsic(_EXTREMES[operation], *same)
            case Operation.NEGATIVE:
                return self.vectors.binary("sub", self._zero_of(first), first)
            case Operation.ABSOLUTE:
                return self.vectors.intrinsic("abs", *same, flags=["i1 false"])
            case Operation.REM:
                return self._integer_remainder(*same)
        return None

    def _integer_remainder(self, x: LlvmValue, y: LlvmValue) -> LlvmValue:
        """What is left of a quotient of integers; 0 where it is by -1 or 0, at which the processor
        would stop: of the least number, or at all."""
        unit = constant(1, y.scalar, y.lanes)
        for stops in (0, -1):
            there = self.vectors.compare("icmp eq", y, constant(stops, y.scalar, y.lanes))
            y = self.vectors.select(there, unit, y)
        return self.vectors.binary("srem", x, y)

    def _float_result(self, operation: Operation, same: Sequence[LlvmValue]) -> LlvmValue:
        """The result of an `operation` on floats."""
        first = same[0]
        match operation:
            case _ if operation in _FLOAT_INSTRUCTIONS:
                return self.vectors.binary(_FLOAT_INSTRUCTIONS[operation], *same)
            case Operation.NEGATIVE:
                return self.vectors.negate(first)
            case Operation.ABSOLUTE:
                return self.vectors.intrinsic("fabs", *same)
            case Operation.SQRT:
                return self.vectors.intrinsic("sqrt", *same)
        dtype = DType.F64 if first.scalar == "double" else DType.F32
        return self.function(operation, same, dtype)

    def _float(self, value: LlvmValue, working: str) -> LlvmValue:
        """An integer as a float, anything else unchanged."""
        return self.convert(value, working) if value.scalar == "i32" else value

    def _to_bf16_by_instruction(self, value: LlvmValue) -> LlvmValue:
        """Rounds to bf16 by the AVX-512 instruction, which flushes denormals to zero."""
        name = f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * value.lanes}"
        short = self._writer.call(name, "bfloat", value.lanes, [str(value)])
        return self.vectors.cast("bitcast", short, "i16")

    def _zero_of(self, value: LlvmValue) -> LlvmValue:
        """Zero of the same type and one lane."""
        return constant(0, value.scalar, value.lanes)
