"""Scalar operations on values of any number of lanes: conversions, broadcasts, instructions and
calls."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...tensor.types import HALVES, NARROW, DType
from ..ir import KernelStage, Operation, Round, walk
from ..native.machine import CpuMachine
from .builder import FunctionBuilder, LlvmValue, suffix, typed
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
"""In what arithmetic is done."""

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
"""A product and the sum behind it are not one instruction, but where products are summed up: what
is computed in two places would not be the same in both. A softmax takes from scores their maximum,
which has to be one of them to the last bit."""
_INTEGER_INSTRUCTIONS = {Operation.ADD: "add", Operation.SUBTRACT: "sub", Operation.MULTIPLY: "mul"}
COMPARE = {
    Operation.LESS: ("fcmp olt", "icmp slt"),
    Operation.LESS_EQUAL: ("fcmp ole", "icmp sle"),
    Operation.EQUAL: ("fcmp oeq", "icmp eq"),
    Operation.NOT_EQUAL: ("fcmp une", "icmp ne"),
}
_RECIPROCAL_EXPONENT_MARGIN = 24
"""Powers of two from the largest and the least normal number where reciprocals are computed."""
_EXTREMES = {Operation.MAXIMUM: "llvm.smax", Operation.MINIMUM: "llvm.smin"}
"""Of whole numbers."""


def working_type(stage: KernelStage) -> str:
    """In what a stage's floats are computed: the widest that it reads, writes or rounds to."""
    dtypes = {stage.target.dtype, *(load.buffer.dtype for load in stage.loads)}
    dtypes |= {node.dtype for node in walk(stage.value) if isinstance(node, Round)}
    return "double" if DType.F64 in dtypes else "float"


class Arithmetic:
    """What LLVM has instructions for; the rest is a call of this package's own functions."""

    def __init__(self, writer: FunctionBuilder, machine: CpuMachine) -> None:
        self.vectors = Vectors(writer)
        self._writer = writer
        self._machine = machine
        self.requests: set[FunctionRequest] = set()
        """Functions of `scalars` that the text needs."""

    def apply(
        self, operation: Operation, operands: Sequence[LlvmValue], working: str = "float"
    ) -> LlvmValue:
        """Of operands whose lanes and types may differ; `working` is for those that are whole."""
        if operation is Operation.SELECT:
            return self._select(*operands)
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
        """A product added to a sum, in one instruction where the machine has it."""
        left, right, total = self._unify([*factors, total])
        if not self._machine.fma:
            return self.apply(Operation.ADD, [total, self.apply(Operation.MULTIPLY, [left, right])])
        return self._intrinsic("llvm.fma", [left, right, total])

    def quotients(
        self, dividend: LlvmValue, divisor: LlvmValue, *, exact: bool, root: bool
    ) -> LlvmValue:
        """Of many floats by the same one: its reciprocal is computed once, where loops allow it.

        That of a root that is a number is never too large nor too small; others are moved away from
        the ends first.
        What a product with it leaves over corrects the product where it is to be exact, so that it
        is rounded as a quotient is, unless that, or what is left over, is too small for a normal
        number. Nothing corrects one that is zero or no finite number, which is what it should be.
        """
        above, inverse, below = self.inverted(dividend, divisor, root=root)
        lanes, product = dividend.lanes, self.vectors.binary("fmul", above, inverse)
        if not exact:
            return product
        minus = self._writer.pure(f"fneg {product}", "float", lanes)
        left = self._intrinsic("llvm.fma", [minus, below, above])
        corrected = self._intrinsic("llvm.fma", [left, inverse, product])
        over, all_ = (self._intrinsic("llvm.fabs", [value]) for value in (left, above))
        less = self._writer.pure(f"fcmp olt {over}, {all_.text}", "i1", lanes)
        return self.vectors.select(less, corrected, product)

    def inverted(
        self, dividend: LlvmValue, divisor: LlvmValue, *, root: bool
    ) -> tuple[LlvmValue, LlvmValue, LlvmValue]:
        """Two factors whose product is nearly the quotient, and what the second is one over."""
        lanes, unit = dividend.lanes, self.vectors.constant(1.0, "float")
        if not root:
            factor, divisor = self._scaled_divisor(divisor)
            dividend = self.vectors.binary("fmul", dividend, self.vectors.broadcast(factor, lanes))
        inverse = self.vectors.broadcast(self.vectors.binary("fdiv", unit, divisor), lanes)
        return dividend, inverse, self.vectors.broadcast(divisor, lanes)

    def over_number(self, dividend: LlvmValue, number: float) -> LlvmValue | None:
        """Quotients of floats, where the reciprocal is not one that LLVM finds exact by itself."""
        usual = math.isfinite(number) and abs(math.frexp(number)[0]) not in (0.0, 0.5)
        if not (self._machine.fma and usual and dividend.scalar == "float" and dividend.lanes > 1):
            return None
        divisor = self.vectors.constant(number, "float")
        return self.quotients(dividend, divisor, exact=True, root=False)

    def _scaled_divisor(self, divisor: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
        """A power of two, and the product with it, whose reciprocal is a normal number."""
        size = self._intrinsic("llvm.fabs", [divisor])
        usual, small, large = (
            self.vectors.constant(number, "float")
            for number in (1.0, 2.0**_RECIPROCAL_EXPONENT_MARGIN, 2.0**-_RECIPROCAL_EXPONENT_MARGIN)
        )
        least, most = (
            self.vectors.constant(number, "float")
            for number in (
                2.0 ** (_RECIPROCAL_EXPONENT_MARGIN - 126),
                2.0 ** (126 - _RECIPROCAL_EXPONENT_MARGIN),
            )
        )
        high = self._writer.pure(f"fcmp ogt {size}, {most.text}", "i1")
        low = self._writer.pure(f"fcmp olt {size}, {least.text}", "i1")
        factor = self.vectors.select(high, large, self.vectors.select(low, small, usual))
        return factor, self.vectors.binary("fmul", divisor, factor)

    def convert(self, value: LlvmValue, scalar: str) -> LlvmValue:
        """A number in another working type; towards zero where it becomes whole."""
        if value.scalar == scalar:
            return value
        if scalar == "i1":
            return self._comparison(Operation.NOT_EQUAL, [value, self._zero_of(value)])
        if scalar == "i32" and value.scalar in ("float", "double"):
            kinds = suffix(scalar, value.lanes), suffix(value.scalar, value.lanes)
            name = f"llvm.fptosi.sat.{'.'.join(kinds)}"
            return self._writer.call(name, scalar, value.lanes, [str(value)])
        return self.cast(_CONVERSIONS[value.scalar, scalar], value, scalar)

    def widened(self, stored: LlvmValue, dtype: DType) -> LlvmValue:
        """What was loaded, in the working type."""
        if dtype in HALVES:
            return self.function(Conversion.WIDEN, [stored], dtype, "float")
        if dtype is DType.BOOL:
            zero = self.vectors.constant(0, "i8", stored.lanes)
            return self._writer.pure(f"icmp ne {stored}, {zero.text}", "i1", stored.lanes)
        if dtype in NARROW:
            return self.cast("sext" if dtype is DType.I8 else "zext", stored, "i32")
        return stored

    def half(self, pairs: LlvmValue, *, second: bool) -> LlvmValue:
        """The first or the second of bf16 that lie interleaved as `i16`, widened."""
        lanes = pairs.lanes // 2
        both = self._writer.pure(f"bitcast {pairs} to {typed('i32', lanes)}", "i32", lanes)
        how, number = ("and", -(1 << 16)) if second else ("shl", 16)
        widened = self.vectors.binary(how, both, self.vectors.constant(number, "i32", lanes))
        return self.cast("bitcast", widened, "float")

    def narrowed(self, value: LlvmValue, dtype: DType) -> LlvmValue:
        """As it is stored."""
        if dtype is DType.BOOL:
            return self.cast("zext", self.convert(value, "i1"), "i8")
        worked = self.convert(value, WORKING[dtype])
        if dtype is DType.BF16 and self._machine.bf16_dot and worked.lanes in (8, 16):
            return self._to_bf16_by_instruction(worked)
        if dtype in HALVES:
            return self.function(Conversion.NARROW, [worked], dtype, "i16")
        if dtype in NARROW:
            return self.cast("trunc", worked, "i8")
        return worked

    def rounded(self, value: LlvmValue, dtype: DType) -> LlvmValue:
        """The nearest value of an element type, in the working type of it."""
        return self.widened(self.narrowed(value, dtype), dtype)

    def function(
        self, name: Name, operands: Sequence[LlvmValue], dtype: DType, scalar: str = ""
    ) -> LlvmValue:
        """A call of a function of `scalars` for so many lanes of a type."""
        lanes = operands[0].lanes
        self.requests.add((name, lanes, dtype))
        result = scalar or operands[0].scalar
        arguments = ", ".join(map(str, operands))
        text = f"call {typed(result, lanes)} {symbol(name, lanes, dtype)}({arguments})"
        return self._writer.pure(text, result, lanes)

    def _unify(self, operands: Sequence[LlvmValue]) -> list[LlvmValue]:
        lanes = max(operand.lanes for operand in operands)
        scalar = max((operand.scalar for operand in operands), key=_ORDER.index)
        return [
            self.vectors.broadcast(self.convert(operand, scalar), lanes) for operand in operands
        ]

    def _select(self, where: LlvmValue, left: LlvmValue, right: LlvmValue) -> LlvmValue:
        left, right = self._unify([left, right])
        lanes = max(where.lanes, left.lanes)
        truth, left, right = (
            self.vectors.broadcast(operand, lanes)
            for operand in (self.convert(where, "i1"), left, right)
        )
        return self.vectors.select(truth, left, right)

    def _comparison(self, operation: Operation, same: Sequence[LlvmValue]) -> LlvmValue:
        first, second = same
        how = COMPARE[operation][0 if first.scalar in ("float", "double") else 1]
        if first.scalar == "i1":
            how = how.replace("slt", "ult").replace("sle", "ule")
        return self._writer.pure(f"{how} {first}, {second.text}", "i1", first.lanes)

    def _integer_result(self, operation: Operation, same: Sequence[LlvmValue]) -> LlvmValue | None:
        """Of whole numbers; nothing where it is a function of floats alone."""
        first = same[0]
        match operation:
            case _ if operation in _INTEGER_INSTRUCTIONS:
                return self.vectors.binary(_INTEGER_INSTRUCTIONS[operation], *same)
            case _ if operation in _EXTREMES:
                return self._intrinsic(_EXTREMES[operation], same)
            case Operation.NEGATIVE:
                return self.vectors.binary("sub", self._zero_of(first), first)
            case Operation.ABSOLUTE:
                return self._intrinsic("llvm.abs", same, "i1 false")
        return None

    def _float_result(self, operation: Operation, same: Sequence[LlvmValue]) -> LlvmValue:
        first = same[0]
        match operation:
            case _ if operation in _FLOAT_INSTRUCTIONS:
                return self.vectors.binary(_FLOAT_INSTRUCTIONS[operation], *same)
            case Operation.NEGATIVE:
                return self._writer.pure(f"fneg {first}", first.scalar, first.lanes)
            case Operation.ABSOLUTE:
                return self._intrinsic("llvm.fabs", same)
            case Operation.SQRT:
                return self._intrinsic("llvm.sqrt", same)
        dtype = DType.F64 if first.scalar == "double" else DType.F32
        return self.function(operation, same, dtype)

    def _float(self, value: LlvmValue, working: str) -> LlvmValue:
        return self.convert(value, working) if value.scalar == "i32" else value

    def _to_bf16_by_instruction(self, value: LlvmValue) -> LlvmValue:
        """By the instruction, which takes what is too small for a normal number for zero."""
        name = f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * value.lanes}"
        short = self._writer.call(name, "bfloat", value.lanes, [str(value)])
        return self.cast("bitcast", short, "i16")

    def cast(self, how: str, value: LlvmValue, scalar: str) -> LlvmValue:
        text = f"{how} {value} to {typed(scalar, value.lanes)}"
        return self._writer.pure(text, scalar, value.lanes)

    def _intrinsic(self, name: str, same: Sequence[LlvmValue], *flags: str) -> LlvmValue:
        """One of LLVM's own functions, whose first operand is of the type that it gives."""
        scalar, lanes = same[0].scalar, same[0].lanes
        arguments = [*map(str, same), *flags]
        return self._writer.call(f"{name}.{suffix(scalar, lanes)}", scalar, lanes, arguments)

    def _zero_of(self, value: LlvmValue) -> LlvmValue:
        return self.vectors.constant(0, value.scalar, value.lanes)
