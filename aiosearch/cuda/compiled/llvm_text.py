"""Lines of LLVM IR: types, constants, names, labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..ir.operations import ConstantOperand
from ..ir.types import ScalarType
from . import backend

TYPES = {
    ScalarType.BOOL: "i1",
    ScalarType.I8: "i8",
    ScalarType.U8: "i8",
    ScalarType.I16: "i16",
    ScalarType.U16: "i16",
    ScalarType.I32: "i32",
    ScalarType.U32: "i32",
    ScalarType.I64: "i64",
    ScalarType.U64: "i64",
    ScalarType.F16: "half",
    ScalarType.F32: "float",
    ScalarType.F64: "double",
    ScalarType.PTR: "ptr",
}


class KernelText(backend.FunctionText):
    """A function that is being written.

    It has not the values and loops of `FunctionBuilder`: a value here is a bare text or a tuple of
    texts by rows, whose type and lanes `Lanes` has, and masked branches and loops are opened at
    their head, where the values that they carry are not yet known.
    """

    def __init__(self) -> None:
        super().__init__()
        self.globals: list[str] = []

    def line(self, text: str) -> str:
        """Writes an instruction that gives something, and gives its name."""
        name = self.new_name()
        self.emit(f"{name} = {text}")
        return name

    def jump(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def split(self, condition: str, first: str, second: str) -> None:
        self.emit(f"br i1 {condition}, label %{first}, label %{second}")

    def stack(self, type: str, align: int = 64) -> str:
        """Memory on the stack, with the address as a result."""
        name = self.new_name()
        self.first.append(f"{name} = alloca {type}, align {align}")
        return name

    def call(self, function: str, result: str, *operands: tuple[str, str]) -> str:
        """Calls a function that it declares; operands are types and texts."""
        types = ", ".join(type for type, _ in operands)
        self.declared.add(f"declare {result} {function}({types})")
        listed = ", ".join(f"{type} {text}" for type, text in operands)
        if result == "void":
            self.emit(f"call void {function}({listed})")
            return ""
        return self.line(f"call {result} {function}({listed})")

    @contextmanager
    def loop(self, low: str, high: str, step: int) -> Iterator[str]:
        """A loop that counts in 64 bits while below the second number; gives the counter."""
        before, head, body, end = self.label, *(self.new_label(item) for item in "hbe")
        counter, after = self.new_name(), self.new_name()
        self.jump(head)
        self.begin(head)
        hole = len(self.lines)
        self.lines.append("")
        further = self.line(f"icmp slt i64 {counter}, {high}")
        self.split(further, body, end)
        self.begin(body)
        yield counter
        self.emit(f"{after} = add nsw i64 {counter}, {step}")
        self.lines[hole] = f"  {counter} = phi i64 [ {low}, %{before} ], [ {after}, %{self.label} ]"
        self.jump(head)
        self.begin(end)


vector = backend.typed
"""A type in so many lanes: `<16 x float>`."""
short = backend.suffix
"""A type as the names of LLVM's functions have it: `v16f32`."""


def literal(constant: ConstantOperand) -> str:
    """A constant as LLVM reads it."""
    value, type = constant.value, constant.type
    if type is ScalarType.BOOL:
        return "true" if value else "false"
    if type is ScalarType.PTR:
        return "null" if not value else f"inttoptr (i64 {int(value)} to ptr)"
    if not type.is_float:
        bits = 8 * type.size
        whole = int(value) & ((1 << bits) - 1)
        return str(whole - (1 << bits) if whole >> bits - 1 else whole)
    return backend.literal(float(value), TYPES[type])


def ascending(type: str, lanes: int, step: int) -> str:
    """The constant vector 0, step, 2 step, ..."""
    return f"<{', '.join(f'{type} {place * step}' for place in range(lanes))}>"
