"""LLVM functions written with Python operators on vectors, as those of `scalars` are.

The problem: a polynomial or a bit trick is a dozen instructions, the same for any number of lanes.
An `OperatorValue` is an `LlvmValue` together with the `VectorFunctionBody` that its operators print
to, by `Vectors`, so the Python reads like the formula and prints as SSA.

Example, with 4 lanes of float: `x * x + 1.0` prints

    %v1 = fmul <4 x float> %x, %x
    %v2 = fadd <4 x float> %v1, splat (float 0x3FF0000000000000)

Invariants: every line has all lanes; a number on either side of an operator is splatted;
comparisons of NaN are false; integers are signed in comparisons and unsigned in `>>`. No line is
fused or reordered by LLVM, as no fast-math flag is set: error bounds of `scalars.catalogue` rely on
that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from .builder import FunctionBuilder, LlvmValue, constant, typed
from .vectors import Vectors

Number: TypeAlias = int | float

WHOLE = {"float": "i32", "double": "i64"}
"""The integer type with as many bits as each float type."""


@dataclass(frozen=True, slots=True)
class OperatorValue:
    """An `LlvmValue` that has Python operators."""

    body: VectorFunctionBody
    value: LlvmValue

    @property
    def scalar(self) -> str:
        """The LLVM type of one lane."""
        return self.value.scalar

    def __str__(self) -> str:
        return str(self.value)

    def __add__(self, right: Operand) -> OperatorValue:
        return self._binary("fadd" if self.value.is_float else "add", right)

    def __sub__(self, right: Operand) -> OperatorValue:
        return self._binary("fsub" if self.value.is_float else "sub", right)

    def __rsub__(self, right: Number) -> OperatorValue:
        return self.body.number(right, self.scalar) - self

    def __mul__(self, right: Operand) -> OperatorValue:
        return self._binary("fmul" if self.value.is_float else "mul", right)

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, right: Operand) -> OperatorValue:
        return self._binary("fdiv", right)

    def __neg__(self) -> OperatorValue:
        return OperatorValue(self.body, self.body.vectors.negate(self.value))

    def __and__(self, right: Operand) -> OperatorValue:
        return self._binary("and", right)

    def __or__(self, right: Operand) -> OperatorValue:
        return self._binary("or", right)

    def __xor__(self, right: Operand) -> OperatorValue:
        return self._binary("xor", right)

    def __lshift__(self, right: Operand) -> OperatorValue:
        return self._binary("shl", right)

    def __rshift__(self, right: Operand) -> OperatorValue:
        """A logical shift: zeros come in from the left."""
        return self._binary("lshr", right)

    def halved(self, times: int) -> OperatorValue:
        """An arithmetic shift: copies of the sign come in from the left."""
        return self._binary("ashr", times)

    def __lt__(self, right: Operand) -> OperatorValue:
        return self._compared("lt", right)

    def __gt__(self, right: Operand) -> OperatorValue:
        return self._compared("gt", right)

    def equals(self, right: Operand) -> OperatorValue:
        """Whether both are equal; `==` compares the Python objects."""
        return self._compared("eq", right)

    @property
    def is_nan(self) -> OperatorValue:
        """Whether a float is NaN."""
        vectors = self.body.vectors
        return OperatorValue(self.body, vectors.compare("fcmp uno", self.value, self.value))

    @property
    def bits(self) -> OperatorValue:
        """The bits as an integer."""
        return self.cast("bitcast", WHOLE[self.scalar])

    def cast(self, how: str, scalar: str) -> OperatorValue:
        """The value in another type, by a cast instruction such as `bitcast` or `fpext`."""
        return OperatorValue(self.body, self.body.vectors.cast(how, self.value, scalar))

    def _binary(self, how: str, right: Operand) -> OperatorValue:
        """The result of an instruction with two operands."""
        second = self.body.operand(right, self.scalar).value
        return OperatorValue(self.body, self.body.vectors.binary(how, self.value, second))

    def _compared(self, how: str, right: Operand) -> OperatorValue:
        """A comparison: false for NaN, signed for integers."""
        kind = "fcmp o" if self.value.is_float else "icmp " if how == "eq" else "icmp s"
        second = self.body.operand(right, self.scalar).value
        result = self.body.vectors.compare(f"{kind}{how}", self.value, second)
        return OperatorValue(self.body, result)


Operand: TypeAlias = OperatorValue | Number
"""A value, or a number that is splatted."""


@dataclass(slots=True)
class VectorFunctionBody:
    """A function on so many lanes, and what it calls."""

    lanes: int
    fused: bool
    """Whether the machine has fused multiply-add, and rounds to an integer in one instruction."""
    scaling: bool = False
    """Whether it scales 64-byte vectors by powers of two in one instruction, as AVX-512 does."""
    # Without numbering the text has the lines of the formula one by one; LLVM merges equal ones.
    vectors: Vectors = field(default_factory=lambda: Vectors(FunctionBuilder(numbering=False)))
    helpers: dict[str, str] = field(default_factory=dict)
    """The texts of functions that are called, by symbol."""

    @property
    def writer(self) -> FunctionBuilder:
        """The builder of the text."""
        return self.vectors.writer

    def kind(self, scalar: str) -> str:
        """The LLVM type of a `scalar` type in all lanes."""
        return typed(scalar, self.lanes)

    def parameter(self, name: str, scalar: str) -> OperatorValue:
        """The parameter of this name."""
        return OperatorValue(self, LlvmValue(f"%{name}", scalar, self.lanes))

    def line(self, text: str, scalar: str) -> OperatorValue:
        """The result of an instruction that no operator prints."""
        return OperatorValue(self, self.writer.pure(text, scalar, self.lanes))

    def number(self, value: Number, scalar: str) -> OperatorValue:
        """A number in every lane."""
        return OperatorValue(self, constant(value, scalar, self.lanes))

    def operand(self, value: Operand, scalar: str) -> OperatorValue:
        """The `value`, or the number as a value."""
        return value if isinstance(value, OperatorValue) else self.number(value, scalar)

    def select(
        self, condition: OperatorValue, then: Operand, otherwise: OperatorValue
    ) -> OperatorValue:
        """`then` where the condition holds, else `otherwise`."""
        # The type is that of `otherwise`, as `then` may be a number.
        first = self.operand(then, otherwise.scalar).value
        chosen = self.vectors.select(condition.value, first, otherwise.value)
        return OperatorValue(self, chosen)

    def fma(self, left: OperatorValue, right: Operand, plus: Operand) -> OperatorValue:
        """`left * right + plus`, rounded once if `fused`, else twice."""
        # Rounding twice is what the second column of `ERRORS` bounds.
        if not self.fused:
            return left * right + plus
        return self.intrinsic(
            "fma", left, self.operand(right, left.scalar), self.operand(plus, left.scalar)
        )

    def intrinsic(
        self, name: str, *operands: OperatorValue, flags: Sequence[str] = ()
    ) -> OperatorValue:
        """A call of an LLVM intrinsic whose operands and result have one type."""
        same = (operand.value for operand in operands)
        return OperatorValue(self, self.vectors.intrinsic(name, *same, flags=flags))

    def scales(self, value: OperatorValue) -> bool:
        """Whether one instruction scales such values by powers of two."""
        return self.scaling and (value.scalar, self.lanes) in (("float", 16), ("double", 8))

    def scale(self, value: OperatorValue, powers: OperatorValue) -> OperatorValue:
        """The value times two to the powers, rounded once (`vscalef`)."""
        return self._wide("scalef", value, str(powers))

    def fraction(self, value: OperatorValue) -> OperatorValue:
        """The value minus its nearest integer (`vreduce`); zero for infinity."""
        return self._wide("reduce", value, "i32 8")

    def _wide(self, name: str, value: OperatorValue, second: str) -> OperatorValue:
        """An AVX-512 instruction on all lanes, with its `second` operand written out."""
        short = "ps" if value.scalar == "float" else "pd"
        called = f"llvm.x86.avx512.mask.{name}.{short}.512"
        zero = f"{self.kind(value.scalar)} zeroinitializer"
        # Mask -1 takes all lanes; 4 is the current rounding mode.
        arguments = [str(value), second, zero, f"i{self.lanes} -1", "i32 4"]
        return OperatorValue(self, self.writer.call(called, value.scalar, self.lanes, arguments))

    def when(
        self,
        condition: LlvmValue,
        values: Sequence[OperatorValue],
        then: Callable[[], Sequence[OperatorValue]],
    ) -> list[OperatorValue]:
        """What `then` returns where the condition holds, else the `values`."""
        before = [value.value for value in values]
        results = self.writer.when(condition, before, lambda _: [value.value for value in then()])
        return [OperatorValue(self, value) for value in results]

    def polynomial(self, at: OperatorValue, coefficients: tuple[float, ...]) -> OperatorValue:
        """The polynomial by Horner's rule, from the constant coefficient up."""
        *lower, highest = coefficients
        value = self.number(highest, at.scalar)
        for coefficient in reversed(lower):
            value = self.fma(value, at, coefficient)
        return value
