"""Pure operations in LLVM IR, on one number or on the lanes of a vector alike.

Nothing here may trap, as other lanes or threads go on: a division by zero gives 0, and shifts take
their count modulo the width, both as in the interpreter. Signed sums and products may not wrap, as
in C. With `contract`, products and sums may become one instruction that rounds once, as NVIDIA's
compiler does by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ir.operations import Compute
from ..ir.types import ScalarType
from . import backend
from .llvm_text import TYPES, KernelText, short, vector

_COMPARISONS = {
    "eq": ("oeq", "eq", "eq"),
    "ne": ("une", "ne", "ne"),
    "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"),
    "gt": ("ogt", "sgt", "ugt"),
    "ge": ("oge", "sge", "uge"),
}
_FLOATS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem"}
_WHOLE = {"and": "and", "or": "or", "xor": "xor"}
_INTRINSICS = {
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven",
    "round": "round", "copysign": "copysign", "fma": "fma",
}  # fmt: skip
_LIBRARY = frozenset(
    [
        "cbrt",
        "exp2",
        "exp10",
        "log2",
        "log10",
        "tan",
        "asin",
        "acos",
        "atan",
        "atan2",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "hypot",
        "lgamma",
        "tgamma",
    ]
)
"""Functions of C's library, called lane by lane."""


@dataclass(slots=True)
class VectorArithmetic:
    text: KernelText
    contract: bool = True
    required: set[tuple[str, int, ScalarType]] = field(default_factory=set)
    """Functions on vectors that the module must define."""

    def compute(self, operation: Compute, operands: Sequence[str], lanes: int) -> str:
        """Writes an operation on texts of so many lanes; gives the text of the result."""
        name, type = operation.name, operation.result.type
        sources = [item.type for item in operation.operands]
        source = sources[0]
        if type is ScalarType.F16 and name not in ("cast", "select", "bitcast"):
            return self._through_float(operation, operands, lanes)
        if name in _COMPARISONS:
            return self._compared(name, source, operands, lanes)
        match name:
            case "cast":
                return self._cast(operands[0], source, type, lanes)
            case "bitcast":
                return self._convert("bitcast", operands[0], TYPES[source], TYPES[type], lanes)
            case "select":
                kind = vector(TYPES[type], lanes)
                condition = vector("i1", lanes)
                return self.text.line(
                    f"select {condition} {operands[0]}, {kind} {operands[1]}, {kind} {operands[2]}"
                )
            case "not":
                ones = self._splat("true" if type is ScalarType.BOOL else "-1", type, lanes)
                return self._binary("xor", operands[0], ones, type, lanes)
            case "ptradd":
                kind = vector("ptr", lanes)
                return self.text.line(
                    f"getelementptr i8, {kind} {operands[0]}, {vector('i64', lanes)} {operands[1]}"
                )
        if source.is_float:
            return self._floating(name, type, source, operands, lanes)
        return self._integer(name, type, operands, lanes)

    def _binary(self, how: str, first: str, second: str, type: ScalarType, lanes: int) -> str:
        return self.text.line(f"{how} {vector(TYPES[type], lanes)} {first}, {second}")

    def _convert(self, how: str, value: str, source: str, target: str, lanes: int) -> str:
        return self.text.line(f"{how} {vector(source, lanes)} {value} to {vector(target, lanes)}")

    @staticmethod
    def _splat(value: str, type: ScalarType, lanes: int) -> str:
        return value if lanes == 1 else f"splat ({TYPES[type]} {value})"

    def _compared(self, name: str, type: ScalarType, operands: Sequence[str], lanes: int) -> str:
        floating, signed, unsigned = _COMPARISONS[name]
        how = (
            f"fcmp {floating}"
            if type.is_float
            else f"icmp {signed if type.is_signed else unsigned}"
        )
        return self._binary(how, operands[0], operands[1], type, lanes)

    def _cast(self, value: str, source: ScalarType, target: ScalarType, lanes: int) -> str:
        first, second = TYPES[source], TYPES[target]
        if ScalarType.PTR in (source, target):
            how = "ptrtoint" if source is ScalarType.PTR else "inttoptr"
            return self._convert(how, value, first, second, lanes)
        if source.is_float and target.is_float:
            how = "fpext" if target.size > source.size else "fptrunc"
            return self._convert(how, value, first, second, lanes)
        if source.is_float:
            kind = "fptosi" if target.is_signed else "fptoui"
            called = f"@llvm.{kind}.sat.{short(second, lanes)}.{short(first, lanes)}"
            return self.text.call(called, vector(second, lanes), (vector(first, lanes), value))
        if target.is_float:
            how = "sitofp" if source.is_signed else "uitofp"
            return self._convert(how, value, first, second, lanes)
        if target.size == source.size and source is not ScalarType.BOOL:
            return value
        how = "trunc" if target.size < source.size else "sext" if source.is_signed else "zext"
        return self._convert(how, value, first, second, lanes)

    def _through_float(self, operation: Compute, operands: Sequence[str], lanes: int) -> str:
        """Halves are computed with in 32 bits and rounded."""
        wide = [
            self._cast(item, operand.type, ScalarType.F32, lanes)
            for item, operand in zip(operands, operation.operands, strict=True)
        ]
        result = self._floating(operation.name, ScalarType.F32, ScalarType.F32, wide, lanes)
        return self._cast(result, ScalarType.F32, ScalarType.F16, lanes)

    # --- floats

    def _floating(
        self, name: str, type: ScalarType, source: ScalarType, operands: Sequence[str], lanes: int
    ) -> str:
        flag = " contract" if self.contract else ""
        if name in _FLOATS:
            return self._binary(f"{_FLOATS[name]}{flag}", operands[0], operands[1], type, lanes)
        if name == "neg":
            return self.text.line(f"fneg {vector(TYPES[type], lanes)} {operands[0]}")
        if name in ("isnan", "isinf", "isfinite"):
            return self._classified(name, source, operands[0], lanes)
        if name in ("min", "max"):
            return self._intrinsic(f"{name}num", type, operands, lanes)
        if name == "abs":
            return self._intrinsic("fabs", type, operands, lanes)
        if name in _INTRINSICS:
            return self._intrinsic(_INTRINSICS[name], type, operands, lanes)
        if name == "rsqrt":
            root = self._intrinsic("sqrt", type, operands, lanes)
            first = self._splat("1.0", type, lanes)
            return self._binary("fdiv", first, root, type, lanes)
        if name in backend.FUNCTIONS:
            self.required.add((name, lanes, type))
            kind = vector(TYPES[type], lanes)
            listed = ", ".join(f"{kind} {item}" for item in operands)
            called = backend.function_symbol(name, lanes, type)
            return self.text.line(f"call {kind} {called}({listed})")
        if name in _LIBRARY:
            return self._library(name, type, operands, lanes)
        raise KeyError(name)

    def _classified(self, name: str, type: ScalarType, value: str, lanes: int) -> str:
        if name == "isnan":
            return self._binary("fcmp uno", value, value, type, lanes)
        size = self._intrinsic("fabs", type, [value], lanes)
        infinity = self._splat("0x7FF0000000000000", type, lanes)
        how = "fcmp oeq" if name == "isinf" else "fcmp olt"
        return self._binary(how, size, infinity, type, lanes)

    def _intrinsic(self, name: str, type: ScalarType, operands: Sequence[str], lanes: int) -> str:
        kind = vector(TYPES[type], lanes)
        called = f"@llvm.{name}.{short(TYPES[type], lanes)}"
        return self.text.call(called, kind, *((kind, item) for item in operands))

    def _library(self, name: str, type: ScalarType, operands: Sequence[str], lanes: int) -> str:
        element = TYPES[type]
        called = f"@{name}{'f' if type is ScalarType.F32 else ''}"
        if lanes == 1:
            return self.text.call(called, element, *((element, item) for item in operands))
        result = "poison"
        kind = vector(element, lanes)
        for lane in range(lanes):
            chosen_arm = [
                self.text.line(f"extractelement {kind} {item}, i32 {lane}") for item in operands
            ]
            value = self.text.call(called, element, *((element, item) for item in chosen_arm))
            result = self.text.line(f"insertelement {kind} {result}, {element} {value}, i32 {lane}")
        return result

    # --- whole numbers

    def _integer(self, name: str, type: ScalarType, operands: Sequence[str], lanes: int) -> str:
        if name in ("add", "sub", "mul"):
            flag = " nsw" if type.is_signed and type.size >= 4 else ""
            return self._binary(f"{name}{flag}", operands[0], operands[1], type, lanes)
        if name in _WHOLE:
            return self._binary(_WHOLE[name], operands[0], operands[1], type, lanes)
        if name in ("shl", "shr"):
            return self._shifted(name, type, operands, lanes)
        if name == "neg":
            return self._binary("sub", self._splat("0", type, lanes), operands[0], type, lanes)
        if name in ("div", "rem"):
            return self._divided(name, type, operands, lanes)
        if name in ("min", "max"):
            return self._intrinsic(f"{'s' if type.is_signed else 'u'}{name}", type, operands, lanes)
        if name == "mulhi":
            return self._high(type, operands, lanes)
        kind = vector(TYPES[type], lanes)
        if name in ("popc", "brev"):
            called = "ctpop" if name == "popc" else "bitreverse"
            return self._intrinsic(called, type, operands, lanes)
        if name in ("clz", "ffs", "abs"):
            called = {"clz": "ctlz", "ffs": "cttz", "abs": "abs"}[name]
            result = self.text.call(
                f"@llvm.{called}.{short(TYPES[type], lanes)}",
                kind,
                (kind, operands[0]),
                ("i1", "false"),
            )
            if name != "ffs":
                return result
            place = self._binary("add", result, self._splat("1", type, lanes), type, lanes)
            zero = self._splat("0", type, lanes)
            none = self._binary("icmp eq", operands[0], zero, type, lanes)
            return self.text.line(
                f"select {vector('i1', lanes)} {none}, {kind} {zero}, {kind} {place}"
            )
        raise KeyError(name)

    def _shifted(self, name: str, type: ScalarType, operands: Sequence[str], lanes: int) -> str:
        most = self._splat(str(8 * type.size - 1), type, lanes)
        count = self._binary("and", operands[1], most, type, lanes)
        how = "shl" if name == "shl" else "ashr" if type.is_signed else "lshr"
        return self._binary(how, operands[0], count, type, lanes)

    def _high(self, type: ScalarType, operands: Sequence[str], lanes: int) -> str:
        bits = 8 * type.size
        wide, narrow = f"i{2 * bits}", TYPES[type]
        grow = "sext" if type.is_signed else "zext"
        first, second = (self._convert(grow, item, narrow, wide, lanes) for item in operands)
        product = self.text.line(f"mul {vector(wide, lanes)} {first}, {second}")
        count = str(bits) if lanes == 1 else f"splat ({wide} {bits})"
        above = self.text.line(f"lshr {vector(wide, lanes)} {product}, {count}")
        return self._convert("trunc", above, wide, narrow, lanes)

    def _divided(self, name: str, type: ScalarType, operands: Sequence[str], lanes: int) -> str:
        """A quotient or remainder; zero below gives 0, and nothing traps.

        Quotients of 32 bits on vectors go through doubles, for machines divide no vectors of whole
        numbers. That is exact: the quotient of two such numbers is a whole number or at least 2^-32
        of itself away from one, and a double is off by 2^-53 at most.
        """
        first, second = operands
        text, kind, truth = self.text, vector(TYPES[type], lanes), vector("i1", lanes)
        zero = self._splat("0", type, lanes)
        if _is_number(second):
            divisor = second
        else:
            unit = self._splat("1", type, lanes)
            bad = self._binary("icmp eq", second, zero, type, lanes)
            if type.is_signed:
                # The least number by -1 does not fit; -1 is done by a subtraction below.
                minus = self._binary("icmp eq", second, self._splat("-1", type, lanes), type, lanes)
                bad = text.line(f"or {truth} {bad}, {minus}")
            divisor = text.line(f"select {truth} {bad}, {kind} {unit}, {kind} {second}")
        if lanes > 1 and type.size <= 4 and not _is_number(second):
            double = ScalarType.F64
            a, b = (self._cast(item, type, double, lanes) for item in (first, divisor))
            exact = self._binary("fdiv", a, b, double, lanes)
            how = "fptosi" if type.is_signed else "fptoui"
            quotient = self._convert(how, exact, "double", TYPES[type], lanes)
        else:
            how = "sdiv" if type.is_signed else "udiv"
            quotient = self._binary(how, first, divisor, type, lanes)
        if divisor is not second:
            if type.is_signed:
                opposite = self._binary("sub", zero, first, type, lanes)
                quotient = text.line(
                    f"select {truth} {minus}, {kind} {opposite}, {kind} {quotient}"
                )
            none = self._binary("icmp eq", second, zero, type, lanes)
            quotient = text.line(f"select {truth} {none}, {kind} {zero}, {kind} {quotient}")
        if name == "div":
            return quotient
        product = self._binary("mul", quotient, second, type, lanes)
        return self._binary("sub", first, product, type, lanes)


def _is_number(text: str) -> bool:
    """Whether an operand is a constant other than 0 and -1."""
    digits = text.removeprefix("splat (").rstrip(")").rpartition(" ")[2]
    return digits.lstrip("-").isdigit() and digits not in ("0", "-1")
