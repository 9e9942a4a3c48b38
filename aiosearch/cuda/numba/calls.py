"""What kernels in Python call: functions of `math`, and everything below `cuda`."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any, TypeAlias

from ..errors import UnsupportedConstruct
from ..frontend.translator import Translator
from ..ir.builder import moved
from ..ir.operations import (
    Address,
    Atomic,
    Barrier,
    ConstantOperand,
    MemorySpace,
    Operand,
    SourceLocation,
    Warp,
)
from ..ir.types import ScalarType
from .argument_types import (
    ArrayArgument,
    ArrayVariable,
    Attribute,
    KernelArray,
    promoted,
    scalar_of,
)

_MATH = {
    name: name
    for name in [
        "sqrt",
        "exp",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "erfc",
        "lgamma",
        "floor",
        "ceil",
        "trunc",
    ]
} | {"fabs": "abs", "gamma": "tgamma", "cbrt": "cbrt", "exp2": "exp2"}
_ATOMICS = {
    "add": "add", "sub": "sub", "max": "max", "min": "min", "and_": "and", "or_": "or",
    "xor": "xor", "exch": "exch", "inc": "inc", "dec": "dec",
}  # fmt: skip
_SHUFFLES = {
    "shfl_sync": "idx", "shfl_up_sync": "up", "shfl_down_sync": "down", "shfl_xor_sync": "xor",
}  # fmt: skip
_VOTES = {"ballot_sync": "ballot", "any_sync": "any", "all_sync": "all"}

Value: TypeAlias = Any
"""What an expression is while it is translated: an `Operand`, a `KernelArray`, a tuple of values,
or whatever Python has by the name."""


class Calls(Translator):
    """Translates calls; `translating` adds expressions and statements."""

    def __init__(self) -> None:
        super().__init__(is_kernel=True)
        self._natural: set[Operand] = set()
        """Values that are not negative, so that an index needs no test for that."""

    def _evaluate(self, node: ast.expr) -> Value:
        raise NotImplementedError

    def _operand(self, node: ast.expr) -> Operand:
        raise NotImplementedError

    def _as_operand(self, value: Value, node: ast.AST) -> Operand:
        raise NotImplementedError

    def _truth(self, node: ast.expr) -> Operand:
        raise NotImplementedError

    def _refuse(self, node: ast.AST, construct: str) -> UnsupportedConstruct:
        raise NotImplementedError

    def _at(self, node: ast.AST) -> SourceLocation:
        raise NotImplementedError

    def _converted(
        self, node: ast.AST, values: list[Value], types: Sequence[ScalarType | ArrayArgument]
    ) -> list[Value]:
        """The arguments of a device function as its signature has them."""
        if len(values) != len(types):
            raise self._refuse(node, f"a call with {len(values)} arguments for {len(types)}")
        converted = []
        for value, type in zip(values, types, strict=True):
            if isinstance(type, ScalarType):
                converted.append(self.builder.cast(self._as_operand(value, node), type))
                continue
            # Arrays are refused rather than converted: that would be a copy nobody wrote.
            actual = isinstance(value, KernelArray) and ArrayArgument(
                value.element, len(value.shape)
            )
            if actual != type:
                raise self._refuse(node, f"{actual or 'a number'} in the place of {type}")
            converted.append(value)
        return converted

    # --- arrays

    def _array_variable(self, array: KernelArray) -> ArrayVariable:
        type = ArrayArgument(array.element, len(array.shape))
        return ArrayVariable(self.held(None, (array.base, *array.shape)), type)

    def _held_array(self, variable: ArrayVariable) -> KernelArray:
        """The array that a name holds here; before its first branch was translated, none."""
        type, leaves = variable.type, self.environment.get(variable.place.key)
        if leaves is None:
            size = ConstantOperand(0, ScalarType.I64)
            leaves = (ConstantOperand(0, ScalarType.PTR), *[size] * type.dimensions)
        return KernelArray(leaves[0], type.element, tuple(leaves[1:]))

    def _row(self, node: ast.AST, array: KernelArray, indices: list[Operand]) -> KernelArray:
        """The part of an array behind its first indices, which is an array itself."""
        builder = self.builder
        remaining = array.shape[len(indices) :]
        total = self._flat_index(array, indices)
        for size in remaining:
            total = builder.compute("mul", ScalarType.I64, total, size)
        self.builder.at = self._at(node)
        start = builder.element(Address(array.base), total, array.element.size)
        return KernelArray(builder.pointer(start), array.element, remaining)

    def _flat_index(self, array: KernelArray, indices: list[Operand]) -> Operand:
        """The index into the first dimensions, as if they were one."""
        builder = self.builder
        total: Operand = ConstantOperand(0, ScalarType.I64)
        for index, size in zip(indices, array.shape, strict=False):
            wide = builder.cast(index, ScalarType.I64)
            if not (index in self._natural or wide in self._natural or is_natural(wide)):
                # A negative index counts from the end, as in Python.
                behind = builder.compute("add", ScalarType.I64, wide, size)
                negative = builder.compare("lt", wide, ConstantOperand(0, ScalarType.I64))
                wide = builder.compute("select", ScalarType.I64, negative, behind, wide)
            total = builder.compute("mul", ScalarType.I64, total, size)
            total = builder.compute("add", ScalarType.I64, total, wide)
        return total

    def _located(
        self, node: ast.AST, array: KernelArray, indices: list[Operand]
    ) -> tuple[Address, ScalarType]:
        if len(indices) != len(array.shape):
            raise self._refuse(node, f"{len(indices)} indices into {len(array.shape)} dimensions")
        total = self._flat_index(array, indices)
        self.builder.at = self._at(node)
        return self.builder.element(Address(array.base), total, array.element.size), array.element

    # --- functions

    def _math_call(self, node: ast.Call, name: str) -> Operand:
        builder = self.builder
        values = [self._operand(item) for item in node.args]
        if name in ("min", "max", "fmin", "fmax", "minimum", "maximum"):
            result = values[0]
            for second in values[1:]:
                type = promoted(result.type, second.type)
                short = "min" if "min" in name else "max"
                result = builder.compute(
                    short, type, builder.cast(result, type), builder.cast(second, type)
                )
            return result
        if name in ("abs", "absolute", "fabs"):
            return builder.compute("abs", values[0].type, values[0])
        if name in ("isnan", "isinf", "isfinite"):
            return builder.compute(name, ScalarType.BOOL, self._floating(values[0]))
        if name in ("pow", "atan2", "hypot", "fmod", "copysign", "arctan2", "power"):
            short = {"fmod": "rem", "arctan2": "atan2", "power": "pow"}.get(name, name)
            first, second = (self._floating(item) for item in values)
            type = promoted(first.type, second.type)
            return builder.compute(
                short, type, builder.cast(first, type), builder.cast(second, type)
            )
        short = _MATH.get(name.replace("arc", "a"), "")
        if not short:
            raise self._refuse(node, f"the function {name}")
        value = self._floating(values[0])
        result = builder.compute(short, value.type, value)
        if name in ("floor", "ceil", "trunc") and isinstance(node.func, ast.Attribute):
            module = self._evaluate(node.func.value)
            if module is math:
                return builder.cast(result, ScalarType.I64)
        return result

    def _floating(self, value: Operand) -> Operand:
        return value if value.type.is_float else self.builder.cast(value, ScalarType.F64)

    def _cuda_call(self, node: ast.Call, path: str) -> Value:
        builder = self.builder
        group, _, name = path.rpartition(".")
        if path in ("grid", "gridsize"):
            return self._grid(node, path)
        if path in ("syncthreads", "syncwarp"):
            level = "block" if path == "syncthreads" else "warp"
            builder.write(Barrier(level=level, at=builder.at))
            return None
        if path in ("threadfence", "threadfence_block", "threadfence_system"):
            return None
        if name == "array" and group in ("shared", "local"):
            return self._array(node, group)
        if group == "atomic":
            return self._atomic(node, name)
        if name in _SHUFFLES:
            value, lane = (self._operand(item) for item in node.args[1:3])
            result = builder.value(value.type)
            whole = ConstantOperand(32, ScalarType.I32)
            operands = (value, builder.cast(lane, ScalarType.I32), whole)
            builder.write(Warp(result, f"shfl.{_SHUFFLES[name]}", operands, builder.at))
            return result
        if name in _VOTES:
            condition = self._truth(node.args[1])
            result = builder.value(ScalarType.U32 if name == "ballot_sync" else ScalarType.I32)
            builder.write(Warp(result, _VOTES[name], (condition,), builder.at))
            return result
        if name in ("popc", "clz", "ffs", "brev"):
            value = self._operand(node.args[0])
            return builder.compute(name, value.type, value)
        if name == "fma":
            values = [self._floating(self._operand(item)) for item in node.args]
            type = values[0].type
            return builder.compute("fma", type, *(builder.cast(item, type) for item in values))
        raise self._refuse(node, f"cuda.{path}")

    def _grid(self, node: ast.Call, path: str) -> Value:
        dimensions = self._operand(node.args[0])
        if not isinstance(dimensions, ConstantOperand) or dimensions.value not in (1, 2, 3):
            raise self._refuse(node, f"cuda.{path} of this")
        values = []
        for axis in "xyz"[: int(dimensions.value)]:
            if path == "grid":
                start = self.builder.compute(
                    "mul",
                    ScalarType.U32,
                    self.builder.index(f"block.{axis}"),
                    self.builder.index(f"block.dim.{axis}"),
                )
                place = self.builder.compute(
                    "add", ScalarType.U32, start, self.builder.index(f"thread.{axis}")
                )
            else:
                place = self.builder.compute(
                    "mul",
                    ScalarType.U32,
                    self.builder.index(f"grid.dim.{axis}"),
                    self.builder.index(f"block.dim.{axis}"),
                )
            wide = self.builder.cast(place, ScalarType.I64)
            self._natural.add(wide)
            values.append(wide)
        return values[0] if len(values) == 1 else tuple(values)

    def _lane(self, name: str) -> Operand:
        """The place of a thread in its warp, `laneid`, or the size of a warp."""
        warp = ConstantOperand(32, ScalarType.U32)
        if name == "warpsize":
            return self.builder.cast(warp, ScalarType.I64)
        index, compute = self.builder.index, self.builder.compute
        place: Operand = index("thread.z")
        for axis in "yx":
            row = compute("mul", ScalarType.U32, place, index(f"block.dim.{axis}"))
            place = compute("add", ScalarType.U32, row, index(f"thread.{axis}"))
        lane = self.builder.cast(compute("rem", ScalarType.U32, place, warp), ScalarType.I64)
        self._natural.add(lane)
        return lane

    def _array(self, node: ast.Call, group: str) -> KernelArray:
        supplied = {item.arg: item.value for item in node.keywords}
        listed = [*node.args, *(supplied[item] for item in ("shape", "dtype") if item in supplied)]
        if len(listed) != 2:
            raise self._refuse(node, f"cuda.{group}.array without a shape and a type")
        shape = self._evaluate(listed[0])
        element = scalar_of(self._evaluate(listed[1]))
        several = shape if isinstance(shape, tuple) else (shape,)
        sizes = [self._as_operand(item, node) for item in several]
        if element is None or not all(isinstance(item, ConstantOperand) for item in sizes):
            raise self._refuse(node, f"cuda.{group}.array whose shape or type is no constant")
        total = math.prod(int(item.value) for item in sizes if isinstance(item, ConstantOperand))
        space = MemorySpace.SHARED if group == "shared" else MemorySpace.PRIVATE
        size = total * element.size if total or group == "local" else None
        base = self.builder.alloc(space, size, element, group)
        wide = tuple(self.builder.cast(item, ScalarType.I64) for item in sizes)
        return KernelArray(base, element, wide)

    def _atomic(self, node: ast.Call, name: str) -> Operand:
        builder = self.builder
        array = self._evaluate(node.args[0])
        if not isinstance(array, KernelArray):
            raise self._refuse(node, f"cuda.atomic.{name} on what is no array")
        if name in ("compare_and_swap", "cas"):
            indices: Value = (ConstantOperand(0, ScalarType.I64),) if name != "cas" else None
            indices = indices or self._evaluate(node.args[1])
            old, new = (self._operand(item) for item in node.args[-2:])
        elif name in _ATOMICS:
            indices, old = self._evaluate(node.args[1]), None
            new = self._operand(node.args[2])
        else:
            raise self._refuse(node, f"cuda.atomic.{name}")
        several = indices if isinstance(indices, tuple) else (indices,)
        address, element = self._located(
            node, array, [self._as_operand(item, node) for item in several]
        )
        result = builder.value(element)
        value = builder.cast(new, element)
        compare = None if old is None else builder.cast(old, element)
        kind = "cas" if old is not None else _ATOMICS[name]
        builder.write(Atomic(result, kind, moved(address, 0), value, compare, builder.at))
        return result


def is_natural(value: Operand) -> bool:
    return isinstance(value, ConstantOperand) and value.value >= 0


def type_name(value: Value) -> str:
    return type(value).__name__


def cuda_path(value: Value) -> str | None:
    """The path of an object below `cuda`: "" for the module, "atomic.add" for that function."""
    if isinstance(value, Attribute):
        return value.path
    path = getattr(value, "cuda_path", None)
    if isinstance(path, str):
        return path
    if isinstance(value, ModuleType) and value.__name__ in ("numba.cuda", "cuda"):
        return ""
    return None
