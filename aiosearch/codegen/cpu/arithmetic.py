"""Scalar functions on values of any number of lanes: types meet, lanes spread, functions apply."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from ...tensor.types import DType
from ..ir import Fold, Operation
from ..native.machine import Machine
from ..scalars import Conversion, symbol
from ..scalars.catalogue import Name, Wanted
from .memory import splat
from .writer import Value, Writer, typed

WORKING = {
    DType.F64: "double",
    DType.F32: "float",
    DType.F16: "float",
    DType.BF16: "float",
    DType.I32: "i32",
    DType.BOOL: "i32",
}
"""In what arithmetic is done."""

_ORDER = ["i1", "i32", "float", "double"]

_FLOAT = {
    Operation.ADD: "fadd contract",
    Operation.SUBTRACT: "fsub contract",
    Operation.MULTIPLY: "fmul contract",
    Operation.DIVIDE: "fdiv",
}
_WHOLE = {Operation.ADD: "add", Operation.SUBTRACT: "sub", Operation.MULTIPLY: "mul"}
_COMPARE = {
    Operation.LESS: ("fcmp olt", "icmp slt"),
    Operation.LESS_EQUAL: ("fcmp ole", "icmp sle"),
    Operation.EQUAL: ("fcmp oeq", "icmp eq"),
    Operation.NOT_EQUAL: ("fcmp une", "icmp ne"),
}
_EXTREMES = {Operation.MAXIMUM: "llvm.smax", Operation.MINIMUM: "llvm.smin"}
"""Of whole numbers."""


class Arithmetic:
    """What LLVM has instructions for; the rest is a call of this package's own functions."""

    def __init__(self, writer: Writer, machine: Machine) -> None:
        self._writer = writer
        self._machine = machine
        self.wanted: set[Wanted] = set()
        """Functions of `scalars` that the text needs."""

    def constant(self, value: float, scalar: str, lanes: int = 1) -> Value:
        text = literal(value, scalar)
        return Value(text if lanes == 1 else splat(scalar, text, lanes), scalar, lanes)

    def spread(self, value: Value, lanes: int) -> Value:
        """The same in every lane."""
        if value.lanes == lanes:
            return value
        if not value.text.startswith("%"):
            return Value(splat(value.scalar, value.text, lanes), value.scalar, lanes)
        type_ = typed(value.scalar, lanes)
        first = self._writer.pure(
            f"insertelement {type_} poison, {value}, i64 0", value.scalar, lanes
        )
        text = f"shufflevector {first}, {type_} poison, <{lanes} x i32> zeroinitializer"
        return self._writer.pure(text, value.scalar, lanes)

    def convert(self, value: Value, scalar: str) -> Value:
        """A number in another working type; towards zero where it becomes whole."""
        if value.scalar == scalar:
            return value
        to = typed(scalar, value.lanes)
        if scalar == "i1":
            return self._compared(Operation.NOT_EQUAL, [value, self._zero_of(value)])
        if scalar == "i32" and value.scalar in ("float", "double"):
            short = {"float": "f32", "double": "f64"}[value.scalar]
            wide = "" if value.lanes == 1 else f"v{value.lanes}"
            name = f"llvm.fptosi.sat.{wide}i32.{wide}{short}"
            return self._writer.call(name, scalar, value.lanes, [str(value)])
        how = {
            ("i1", "i32"): "zext",
            ("i1", "float"): "uitofp",
            ("i1", "double"): "uitofp",
            ("i32", "float"): "sitofp",
            ("i32", "double"): "sitofp",
            ("float", "double"): "fpext",
            ("double", "float"): "fptrunc",
        }[value.scalar, scalar]
        return self._writer.pure(f"{how} {value} to {to}", scalar, value.lanes)

    def apply(
        self, operation: Operation, operands: Sequence[Value], working: str = "float"
    ) -> Value:
        """Of operands whose lanes and types may differ; `working` is for those that are whole."""
        if operation is Operation.SELECT:
            return self._select(*operands)
        same = self._meet(operands)
        if operation in _COMPARE:
            return self._compared(operation, same)
        if same[0].scalar == "i1":
            same = [self.convert(one, "i32") for one in same]
        return self._applied(operation, same, working)

    def widened(self, stored: Value, dtype: DType) -> Value:
        """What was loaded, in the working type."""
        lanes = stored.lanes
        if dtype in (DType.BF16, DType.F16):
            return self.function(Conversion.WIDEN, [stored], dtype, "float")
        if dtype is DType.BOOL:
            zero = self.constant(0, "i8", lanes)
            return self._writer.pure(f"icmp ne {stored}, {zero.text}", "i1", lanes)
        return stored

    def narrowed(self, value: Value, dtype: DType) -> Value:
        """As it is stored."""
        if dtype is DType.BOOL:
            true = self.convert(value, "i1")
            return self._writer.pure(
                f"zext {true} to {typed('i8', value.lanes)}", "i8", value.lanes
            )
        worked = self.convert(value, WORKING[dtype])
        if dtype is DType.BF16 and self._machine.bf16_dot and worked.lanes in (8, 16):
            return self._shortened(worked)
        if dtype in (DType.BF16, DType.F16):
            return self.function(Conversion.NARROW, [worked], dtype, "i16")
        return worked

    def _shortened(self, value: Value) -> Value:
        """By the instruction, which takes what is too small for a normal number for zero."""
        lanes = value.lanes
        name = f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * lanes}"
        short = self._writer.call(name, "bfloat", lanes, [str(value)])
        return self._writer.pure(f"bitcast {short} to {typed('i16', lanes)}", "i16", lanes)

    def rounded(self, value: Value, dtype: DType) -> Value:
        """The nearest value of an element type, in the working type of it."""
        return self.widened(self.narrowed(value, dtype), dtype)

    def function(
        self, name: Name, operands: Sequence[Value], dtype: DType, scalar: str = ""
    ) -> Value:
        """A call of a function of `scalars` for so many lanes of a type."""
        lanes = operands[0].lanes
        self.wanted.add((name, lanes, dtype))
        result = scalar or operands[0].scalar
        arguments = ", ".join(map(str, operands))
        text = f"call {typed(result, lanes)} {symbol(name, lanes, dtype)}({arguments})"
        return self._writer.pure(text, result, lanes)

    def multiplied(self, total: Value, factors: Sequence[Value]) -> Value:
        """A product added to a sum, in one instruction where the machine has it."""
        one, other, total = self._meet([*factors, total])
        if not self._machine.fma:
            return self.apply(Operation.ADD, [total, self.apply(Operation.MULTIPLY, [one, other])])
        return self._intrinsic("llvm.fma", [one, other, total])

    def across(self, value: Value, fold: Fold) -> Value:
        """The lanes of a value folded into one."""
        floats = value.scalar in ("float", "double")
        short = {"float": "f32", "double": "f64"}.get(value.scalar, value.scalar)
        kind = f"v{value.lanes}{short}"
        if fold is Fold.MAX:
            name = "fmaximum" if floats else "smax"
            return self._writer.call(
                f"llvm.vector.reduce.{name}.{kind}", value.scalar, 1, [str(value)]
            )
        if not floats:
            return self._writer.call(
                f"llvm.vector.reduce.add.{kind}", value.scalar, 1, [str(value)]
            )
        name = f"llvm.vector.reduce.fadd.{kind}"
        self._writer.declared.add(f"declare {value.scalar} @{name}({value.scalar}, {value.type})")
        text = f"call reassoc {value.scalar} @{name}({value.scalar} 0.0, {value})"
        return self._writer.pure(text, value.scalar)

    def choose(self, where: Value, one: Value, other: Value) -> Value:
        """By a truth; all of the same lanes."""
        return self._writer.pure(f"select {where}, {one}, {other}", one.scalar, one.lanes)

    def _meet(self, operands: Sequence[Value]) -> list[Value]:
        lanes = max(one.lanes for one in operands)
        scalar = max((one.scalar for one in operands), key=_ORDER.index)
        return [self.spread(self.convert(one, scalar), lanes) for one in operands]

    def _select(self, where: Value, one: Value, other: Value) -> Value:
        one, other = self._meet([one, other])
        lanes = max(where.lanes, one.lanes)
        truth = self.spread(self.convert(where, "i1"), lanes)
        return self.choose(truth, self.spread(one, lanes), self.spread(other, lanes))

    def _compared(self, operation: Operation, same: Sequence[Value]) -> Value:
        first, second = same
        how = _COMPARE[operation][0 if first.scalar in ("float", "double") else 1]
        if first.scalar == "i1":
            how = how.replace("slt", "ult").replace("sle", "ule")
        return self._writer.pure(f"{how} {first}, {second.text}", "i1", first.lanes)

    def _applied(self, operation: Operation, same: Sequence[Value], working: str) -> Value:
        first = same[0]
        floats = first.scalar != "i32"
        if operation in _FLOAT and floats:
            return self._two(_FLOAT[operation], same)
        if operation in _WHOLE and not floats:
            return self._two(_WHOLE[operation], same)
        if operation in _EXTREMES and not floats:
            return self._intrinsic(_EXTREMES[operation], same)
        if operation is Operation.NEGATIVE:
            if floats:
                return self._writer.pure(f"fneg {first}", first.scalar, first.lanes)
            return self._two("sub", [self._zero_of(first), first])
        if operation is Operation.ABSOLUTE:
            if floats:
                return self._intrinsic("llvm.fabs", same)
            text = [str(first), "i1 false"]
            return self._writer.call(_full("llvm.abs", first), "i32", first.lanes, text)
        worked = same if floats else [self.convert(one, working) for one in same]
        if operation in _FLOAT:
            return self._two(_FLOAT[operation], worked)
        if operation is Operation.SQRT:
            return self._intrinsic("llvm.sqrt", worked)
        dtype = DType.F64 if worked[0].scalar == "double" else DType.F32
        return self.function(operation, worked, dtype)

    def _two(self, how: str, same: Sequence[Value]) -> Value:
        first, second = same
        return self._writer.pure(f"{how} {first}, {second.text}", first.scalar, first.lanes)

    def _intrinsic(self, name: str, same: Sequence[Value]) -> Value:
        first = same[0]
        return self._writer.call(_full(name, first), first.scalar, first.lanes, [*map(str, same)])

    def _zero_of(self, value: Value) -> Value:
        return self.constant(0, value.scalar, value.lanes)


def literal(value: float, scalar: str) -> str:
    """A number as LLVM writes it."""
    if scalar == "i1":
        return "true" if value else "false"
    if scalar.startswith("i"):
        return str(int(value))
    if scalar == "float" and math.isfinite(value):
        value = _single(value)
    return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


def _single(value: float) -> float:
    try:
        return float(struct.unpack(">f", struct.pack(">f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _full(name: str, value: Value) -> str:
    short = {"float": "f32", "double": "f64"}.get(value.scalar, value.scalar)
    return f"{name}.{short}" if value.lanes == 1 else f"{name}.v{value.lanes}{short}"
