"""LLVM functions written with Python operators on vectors, as those of `scalars` are.

The problem: a polynomial or a bit trick is a dozen instructions, the same for any number of lanes.
An `OperatorValue` records the operators that are applied to it as lines of a `VectorFunctionBody`,
so the Python reads like the formula and prints as SSA.

Example, with 4 lanes of float: `x * x + 1.0` prints

    %v0 = fmul <4 x float> %x, %x
    %v1 = fadd <4 x float> %v0, splat (float 0x3FF0000000000000)

Invariants: every line has all lanes; a number on either side of an operator is splatted;
comparisons of NaN are false; integers are signed in comparisons and unsigned in `>>`. No line is
fused or reordered by LLVM, as no fast-math flag is set: error bounds of `scalars.accuracy` rely on
that.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from typing import TypeAlias

Number: TypeAlias = int | float

BITS = {"float": 32, "double": 64, "i1": 1, "half": 16, "i16": 16, "i32": 32, "i64": 64}
"""Bits of each element type."""
WHOLE = {"float": "i32", "double": "i64"}
"""The integer type with as many bits as each float type."""


@dataclass(frozen=True, slots=True)
class OperatorValue:
    """The result of a line, in every lane."""

    body: VectorFunctionBody
    element: str
    text: str

    @property
    def kind(self) -> str:
        """The LLVM type."""
        return self.body.kind(self.element)

    def __add__(self, right: Operand) -> OperatorValue:
        return self.body.binary("fadd" if self.is_float else "add", self, right)

    def __sub__(self, right: Operand) -> OperatorValue:
        return self.body.binary("fsub" if self.is_float else "sub", self, right)

    def __rsub__(self, right: Number) -> OperatorValue:
        return self.body.number(right, self.element) - self

    def __mul__(self, right: Operand) -> OperatorValue:
        return self.body.binary("fmul" if self.is_float else "mul", self, right)

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, right: Operand) -> OperatorValue:
        return self.body.binary("fdiv", self, right)

    def __neg__(self) -> OperatorValue:
        return self.body.line(self.element, f"fneg {self.kind} {self.text}")

    def __and__(self, right: Operand) -> OperatorValue:
        return self.body.binary("and", self, right)

    def __or__(self, right: Operand) -> OperatorValue:
        return self.body.binary("or", self, right)

    def __xor__(self, right: Operand) -> OperatorValue:
        return self.body.binary("xor", self, right)

    def __lshift__(self, right: Operand) -> OperatorValue:
        return self.body.binary("shl", self, right)

    def __rshift__(self, right: Operand) -> OperatorValue:
        """A logical shift: zeros come in from the left."""
        return self.body.binary("lshr", self, right)

    def halved(self, times: int) -> OperatorValue:
        """An arithmetic shift: copies of the sign come in from the left."""
        return self.body.binary("ashr", self, times)

    def __lt__(self, right: Operand) -> OperatorValue:
        return self.compared("lt", right)

    def __gt__(self, right: Operand) -> OperatorValue:
        return self.compared("gt", right)

    def equals(self, right: Operand) -> OperatorValue:
        """Whether both are equal; `==` compares the Python objects."""
        return self.compared("eq", right)

    def compared(self, how: str, right: Operand) -> OperatorValue:
        """A comparison: false for NaN, signed for integers."""
        if self.is_float:
            return self.body.binary(f"fcmp o{how}", self, right, "i1")
        return self.body.binary(f"icmp {'' if how == 'eq' else 's'}{how}", self, right, "i1")

    @property
    def is_nan(self) -> OperatorValue:
        """Whether a float is NaN."""
        return self.body.binary("fcmp uno", self, self, "i1")

    @property
    def is_float(self) -> bool:
        """Whether the `element` type is a float."""
        return self.element in WHOLE

    @property
    def bits(self) -> OperatorValue:
        """The bits as an integer."""
        return self.cast("bitcast", WHOLE[self.element])

    def cast(self, how: str, element: str) -> OperatorValue:
        """The value in another type, by a cast instruction such as `bitcast` or `fpext`."""
        return self.body.line(
            element, f"{how} {self.kind} {self.text} to {self.body.kind(element)}"
        )


Operand: TypeAlias = OperatorValue | Number
"""A value, or a number that is splatted."""


@dataclass(slots=True)
class VectorFunctionBody:
    """The lines of a function on so many lanes, and what they call."""

    lanes: int
    fused: bool
    """Whether the machine has fused multiply-add, and rounds to an integer in one instruction."""
    scaling: bool = False
    """Whether it scales 64-byte vectors by powers of two in one instruction, as AVX-512 does."""
    lines: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)
    helpers: dict[str, str] = field(default_factory=dict)
    """The texts of functions that are called, by symbol."""

    def kind(self, element: str) -> str:
        """The LLVM type of an `element` type in all lanes."""
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def line(self, element: str, text: str) -> OperatorValue:
        """The result of an instruction."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return OperatorValue(self, element, name)

    def number(self, value: Number, element: str) -> OperatorValue:
        """A number in every lane."""
        text = literal(value, element)
        return OperatorValue(
            self, element, text if self.lanes == 1 else f"splat ({element} {text})"
        )

    def binary(
        self, how: str, left: OperatorValue, right: Operand, element: str | None = None
    ) -> OperatorValue:
        """The result of an instruction with two operands."""
        second = self.operand(right, left.element)
        return self.line(element or left.element, f"{how} {left.kind} {left.text}, {second.text}")

    def operand(self, value: Operand, element: str) -> OperatorValue:
        """The `value`, or the number as a value."""
        return value if isinstance(value, OperatorValue) else self.number(value, element)

    def select(
        self, condition: OperatorValue, then: Operand, otherwise: OperatorValue
    ) -> OperatorValue:
        """`then` where the condition holds, else `otherwise`."""
        # The type is that of `otherwise`, as `then` may be a number.
        first = self.operand(then, otherwise.element)
        choices = f"{first.kind} {first.text}, {otherwise.kind} {otherwise.text}"
        return self.line(otherwise.element, f"select {condition.kind} {condition.text}, {choices}")

    def fma(self, left: OperatorValue, right: Operand, plus: Operand) -> OperatorValue:
        """`left * right + plus`, rounded once if `fused`, else twice."""
        # Rounding twice is what the second column of `ERRORS` bounds.
        if not self.fused:
            return left * right + plus
        return self.intrinsic(
            "fma", left, self.operand(right, left.element), self.operand(plus, left.element)
        )

    def intrinsic(self, name: str, *operands: OperatorValue) -> OperatorValue:
        """A call of an LLVM intrinsic whose operands and result have one type."""
        first = operands[0]
        short = f"f{BITS[first.element]}" if first.is_float else first.element
        called = f"@llvm.{name}.{short if self.lanes == 1 else f'v{self.lanes}{short}'}"
        kinds = ", ".join([first.kind] * len(operands))
        self.declarations.add(f"declare {first.kind} {called}({kinds})")
        listed = ", ".join(f"{operand.kind} {operand.text}" for operand in operands)
        return self.line(first.element, f"call {first.kind} {called}({listed})")

    def scales(self, value: OperatorValue) -> bool:
        """Whether one instruction scales such values by powers of two."""
        return self.scaling and self.lanes * BITS[value.element] == 512

    def scale(self, value: OperatorValue, powers: OperatorValue) -> OperatorValue:
        """The value times two to the powers, rounded once (`vscalef`)."""
        return self._wide("scalef", value, f"{powers.kind} {powers.text}")

    def fraction(self, value: OperatorValue) -> OperatorValue:
        """The value minus its nearest integer (`vreduce`); zero for infinity."""
        return self._wide("reduce", value, "i32 8")

    def _wide(self, name: str, value: OperatorValue, operands: str) -> OperatorValue:
        """An AVX-512 instruction on all lanes, with its second operand written out."""
        kind, mask = value.kind, f"i{self.lanes}"
        short = "ps" if value.element == "float" else "pd"
        called = f"@llvm.x86.avx512.mask.{name}.{short}.512"
        operand_types = operands.rpartition(" ")[0]
        self.declarations.add(
            f"declare {kind} {called}({kind}, {operand_types}, {kind}, {mask}, i32)"
        )
        # Mask -1 takes all lanes; 4 is the current rounding mode.
        arguments = f"{kind} {value.text}, {operands}, {kind} zeroinitializer"
        return self.line(value.element, f"call {kind} {called}({arguments}, {mask} -1, i32 4)")

    def any_lane(self, conditions: OperatorValue) -> OperatorValue:
        """Whether a condition holds in some lane, as one bit."""
        if self.lanes == 1:
            return conditions
        called = f"@llvm.vector.reduce.or.v{self.lanes}i1"
        self.declarations.add(f"declare i1 {called}({conditions.kind})")
        return self.line("i1", f"call i1 {called}({conditions.kind} {conditions.text})")

    def merged(
        self, left: OperatorValue, before: str, right: OperatorValue, between: str
    ) -> OperatorValue:
        """`left` where control came from block `before`, `right` where from block `between`."""
        came = f"[ {left.text}, %{before} ], [ {right.text}, %{between} ]"
        return self.line(left.element, f"phi {left.kind} {came}")

    def polynomial(self, at: OperatorValue, coefficients: tuple[float, ...]) -> OperatorValue:
        """The polynomial by Horner's rule, from the constant coefficient up."""
        *lower, highest = coefficients
        value = self.number(highest, at.element)
        for coefficient in reversed(lower):
            value = self.fma(value, at, coefficient)
        return value


def literal(value: Number, element: str) -> str:
    """A number as LLVM reads it; floats as their bits, rounded to their type first."""
    if element == "i1":
        return "true" if value else "false"
    if element not in WHOLE:
        return str(int(value))
    near = _single(float(value)) if element == "float" else float(value)
    # LLVM reads a float literal as the bits of a double, exactly representable or refused, so f32
    # is rounded first.
    (bits,) = struct.unpack("<Q", struct.pack("<d", near))
    return f"0x{bits:016X}"


def _single(value: float) -> float:
    """The nearest f32; infinity beyond the largest."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
