"""Scalar functions of LLVM IR, compiled, linked against nothing, and run over whole arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeAlias

import llvmlite.binding as llvm
import numpy as np

from aiosearch.codegen.llvm.scalars import Conversion, library, symbol
from aiosearch.codegen.llvm.scalars.catalogue import SHORT, Name
from aiosearch.codegen.native.compiler import optimize, parse_module, target_machine
from aiosearch.codegen.native.machine import CpuMachine, host
from aiosearch.tensor.types import DType

KINDS: dict[DType, tuple[str, Any]] = {
    DType.F32: ("float", np.float32),
    DType.F64: ("double", np.float64),
    DType.BF16: ("i16", np.uint16),
    DType.F16: ("i16", np.uint16),
}

Loop: TypeAlias = Callable[..., None]
"""Of where the results go, one or two operands, and how many there are."""


@dataclass(frozen=True)
class Scalar:
    """A function, and what it is compiled for."""

    name: Name
    lanes: int
    dtype: DType
    fused: bool = True
    machine: CpuMachine = field(default_factory=host)

    def __call__(self, *operands: Any) -> Any:
        """Of one or two arrays of one size, which the number of lanes divides."""
        results = np.empty(operands[0].shape, KINDS[self.types[1]][1])
        self.prepared(results, *operands)()
        return results

    def prepared(self, results: Any, *operands: Any) -> Callable[[], None]:
        """A call that fills an array; all of them must be there as long as this is."""
        first, *others = operands
        assert first.size % self.lanes == 0
        assert all(one.flags.c_contiguous for one in (results, *operands))
        places = [one.ctypes.data for one in (results, first, *(others or [first]))]
        return partial(_compiled(self)[1], *places, first.size)

    @property
    def types(self) -> tuple[DType, DType]:
        """Of operands and of results."""
        match self.name:
            case _ if self.dtype is DType.BF16 and self.name in SHORT:
                return DType.F32, DType.F32
            case Conversion.NARROW:
                return DType.F32, self.dtype
            case Conversion.WIDEN:
                return self.dtype, DType.F32
        return self.dtype, self.dtype


@cache
def _compiled(scalar: Scalar) -> tuple[Any, Loop]:
    """The memory of the code, and the code. Linking fails where it calls what it does not have."""
    machine = target_machine(scalar.machine)
    module = parse_module(_text(scalar), llvm.create_context())
    module.triple, module.data_layout = scalar.machine.triple, str(machine.target_data)
    optimize(module, machine)
    builder = llvm.JITLibraryBuilder().add_object_img(machine.emit_object(module))
    memory = builder.export_symbol("loop").link(_linker(), f"{hash(scalar):x}")
    return memory, ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * 4)(memory["loop"])


@cache
def _linker() -> Any:
    return llvm.create_lljit_compiler(target_machine(host()), use_jit_link=True)


def _text(scalar: Scalar) -> str:
    """A module with a function that goes through arrays, a vector at a time."""
    wanted = scalar.name, scalar.lanes, scalar.dtype
    (taken, operand), (given, result) = (_kinds(one, scalar.lanes) for one in scalar.types)
    loads = [
        f"  %p{k} = getelementptr {taken}, ptr %in{k}, i64 %i\n"
        f"  %x{k} = load {operand}, ptr %p{k}, align 1"
        for k in range(2)
    ]
    text = library([wanted], fused=scalar.fused, scaling=scalar.machine.scaling)
    head = text[text.index(f"{symbol(*wanted)}(") :].partition("\n")[0]
    operands = ", ".join(f"{operand} %x{k}" for k in range(head.count("%")))
    return "\n".join([
        text,
        "define void @loop(ptr %out, ptr %in0, ptr %in1, i64 %size) {",
        "entry:",
        "  br label %next",
        "next:",
        "  %i = phi i64 [ 0, %entry ], [ %j, %next ]",
        *loads,
        f"  %y = call {result} {symbol(*wanted)}({operands})",
        f"  %q = getelementptr {given}, ptr %out, i64 %i",
        f"  store {result} %y, ptr %q, align 1",
        f"  %j = add i64 %i, {scalar.lanes}",
        "  %more = icmp ult i64 %j, %size",
        "  br i1 %more, label %next, label %done",
        "done:",
        "  ret void",
        "}",
    ])  # fmt: skip


def _kinds(dtype: DType, lanes: int) -> tuple[str, str]:
    """Of one element, and of so many."""
    element = KINDS[dtype][0]
    return element, element if lanes == 1 else f"<{lanes} x {element}>"
