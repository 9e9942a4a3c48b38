"""Writing blocks of the IR operation by operation, folding constants on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from .operations import (
    NOWHERE,
    Address,
    Alloc,
    Compute,
    ConstantOperand,
    IrValue,
    MemorySpace,
    Operand,
    Operation,
    Region,
    SourceLocation,
)
from .types import ScalarType

_NEUTRAL = {"add": 0, "sub": 0, "or": 0, "xor": 0, "shl": 0, "shr": 0, "mul": 1, "div": 1}
_COMMUTES = frozenset({"add", "mul", "or", "xor", "and"})


def folded(name: str, type: ScalarType, operands: Sequence[Operand]) -> Operand | None:
    """The operand or constant that the operation is equal to, if that is known.

    `folded("add", I32, (x, 0))` is x. Sums of floats with zero stay: -0 + 0 is not -0.
    """
    if operands and all(isinstance(entry, ConstantOperand) for entry in operands):
        return _constant(
            name, type, [entry for entry in operands if isinstance(entry, ConstantOperand)]
        )
    if name == "select":
        condition, left, right = operands
        if isinstance(condition, ConstantOperand):
            return left if condition.value else right
        return left if left == right else None
    if name in ("and", "or") and type is ScalarType.BOOL:
        return _logical(name, operands[0], operands[1])
    if name == "ptradd":
        return operands[0] if _is(operands[1], 0) else None
    if len(operands) == 2 and type.is_integer:
        return _neutral(name, type, operands[0], operands[1])
    return None


def _logical(name: str, left: Operand, right: Operand) -> Operand | None:
    for first, second in ((left, right), (right, left)):
        if isinstance(first, ConstantOperand):
            absorbs = bool(first.value) == (name == "or")
            return first if absorbs else second
    return left if left == right else None


def _neutral(name: str, type: ScalarType, left: Operand, right: Operand) -> Operand | None:
    if name in _NEUTRAL and _is(right, _NEUTRAL[name]):
        return left
    if name in _COMMUTES and name in _NEUTRAL and _is(left, _NEUTRAL[name]):
        return right
    if name in ("mul", "and") and (_is(left, 0) or _is(right, 0)):
        return ConstantOperand(0, type)
    return None


def _is(operand: Operand, value: int) -> bool:
    return isinstance(operand, ConstantOperand) and operand.value == value


def _constant(
    name: str, type: ScalarType, operands: list[ConstantOperand]
) -> ConstantOperand | None:
    """Computes on constants as the interpreter does, so that both agree to the last bit."""
    if type is ScalarType.PTR:
        return None
    if name in ("div", "rem") and not type.is_float and not operands[1].value:
        return None
    from ..interpreter import arithmetic

    arrays = [arithmetic.array(entry) for entry in operands]
    try:
        result = arithmetic.apply(name, type, arrays)
    except KeyError:
        return None
    return ConstantOperand(result.reshape(()).item(), type)


COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


@dataclass(slots=True)
class RegionBuilder:
    """Where operations go that are written next, and the numbers of values."""

    number: int = 0
    at: SourceLocation = NOWHERE
    prologue: list[Operation] = field(default_factory=list)
    """What stands before all else: allocations, and indices of threads and blocks."""
    lines: list[Operation] = field(default_factory=list)
    _indices: dict[str, IrValue] = field(default_factory=dict)
    _negated: dict[Operand, Operand] = field(default_factory=dict)
    """Of what each truth value is the opposite."""

    def value(self, type: ScalarType, hint: str = "") -> IrValue:
        self.number += 1
        return IrValue(self.number, type, hint)

    def write(self, operation: Operation) -> None:
        self.lines.append(operation)

    @contextmanager
    def block(self) -> Iterator[list[Operation]]:
        """Collects what is written inside into a list of its own."""
        outer, self.lines = self.lines, []
        try:
            yield self.lines
        finally:
            self.lines = outer

    def compute(self, name: str, type: ScalarType, *operands: Operand, hint: str = "") -> Operand:
        """Writes a pure operation, or gives what it is known to be."""
        existing = folded(name, type, operands)
        if existing is None and type is ScalarType.BOOL:
            existing = self._opposite(name, operands)
        if existing is not None:
            return existing
        result = self.value(type, hint)
        self.write(Compute(result, name, operands, self.at))
        if name == "not" and type is ScalarType.BOOL:
            self._negated[result] = operands[0]
        return result

    def _opposite(self, name: str, operands: tuple[Operand, ...]) -> Operand | None:
        """What follows from a truth value being the opposite of another one."""
        if name == "not":
            return self._negated.get(operands[0])
        if name in ("and", "or") and (
            self._negated.get(operands[0]) == operands[1]
            or self._negated.get(operands[1]) == operands[0]
        ):
            return ConstantOperand(name == "or", ScalarType.BOOL)
        return None

    def compare(self, name: str, first: Operand, second: Operand) -> Operand:
        return self.compute(name, ScalarType.BOOL, first, second)

    def cast(self, value: Operand, type: ScalarType) -> Operand:
        if value.type is type:
            return value
        if type is ScalarType.BOOL:
            return self.compare("ne", value, ConstantOperand(0, value.type))
        return self.compute("cast", type, value)

    def negated(self, condition: Operand) -> Operand:
        return self.compute("not", ScalarType.BOOL, condition)

    def index(self, name: str) -> IrValue:
        """A thread's or block's index, or a size of the launch; each is computed once."""
        if name not in self._indices:
            result = self.value(ScalarType.U32, name.replace(".", ""))
            self.prologue.append(Compute(result, name, ()))
            self._indices[name] = result
        return self._indices[name]

    def alloc(
        self, space: MemorySpace, size: int | None, element: ScalarType, hint: str = ""
    ) -> IrValue:
        result = self.value(ScalarType.PTR, hint)
        self.prologue.append(Alloc(result, space, size, element, self.at))
        return result

    def pointer(self, address: Address) -> Operand:
        """The address as one value."""
        base, index = address.base, address.index
        if isinstance(index, ConstantOperand):
            offset: Operand = ConstantOperand(
                int(index.value) * address.scale + address.offset, ScalarType.I64
            )
        else:
            scale = ConstantOperand(address.scale, ScalarType.I64)
            scaled = self.compute("mul", ScalarType.I64, index, scale)
            offset = self.compute(
                "add", ScalarType.I64, scaled, ConstantOperand(address.offset, ScalarType.I64)
            )
        return self.compute("ptradd", ScalarType.PTR, base, offset)

    def element(self, address: Address, index: Operand, size: int) -> Address:
        """The address so many elements of a size behind another one."""
        index = self.cast(index, ScalarType.I64)
        if isinstance(index, ConstantOperand):
            return moved(address, int(index.value) * size)
        if address.index == ConstantOperand(0, ScalarType.I64):
            return Address(address.base, index, size, address.offset)
        if size and address.scale % size == 0:
            factor = ConstantOperand(address.scale // size, ScalarType.I64)
            before = self.compute("mul", ScalarType.I64, address.index, factor)
            total = self.compute("add", ScalarType.I64, before, index)
            return Address(address.base, total, size, address.offset)
        return Address(self.pointer(address), index, size, 0)


def moved(address: Address, offset: int) -> Address:
    """The address so many bytes behind another one."""
    return Address(address.base, address.index, address.scale, address.offset + offset)


def block(lines: list[Operation], *yields: Operand) -> Region:
    return Region(tuple(lines), yields)
