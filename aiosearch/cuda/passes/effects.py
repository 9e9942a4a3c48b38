"""What operations do to memory, and which of it can be the same memory.

An address is taken apart into its *root*, the parameter, symbol or allocation that its base comes
from, and an affine form of bytes: `a + 4 * threadIdx.x + 64 * threadIdx.y + 8` has the root a, the
coefficients {x: 4, y: 64} and the constant 8. Two different allocations never overlap, nor does one
overlap a parameter; two parameters may. Where two accesses have the same root and the same form,
and the form is different for any two threads, they meet in the same thread or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..ir.operations import (
    Address,
    Alloc,
    Atomic,
    CallOperation,
    Compute,
    ConstantOperand,
    IrValue,
    Load,
    Operand,
    Operation,
    ParallelFunction,
    Region,
    SourceLocation,
    Store,
    Warp,
    regions,
    walk,
)
from ..ir.types import ScalarType


@dataclass(frozen=True, slots=True)
class AffineForm:
    """A sum of values times whole numbers, plus a number."""

    terms: tuple[tuple[IrValue, int], ...]
    constant: int

    @staticmethod
    def of(terms: Iterable[tuple[IrValue, int]], constant: int) -> AffineForm:
        """The form with these `terms`, of which several may be of one value."""
        total: dict[IrValue, int] = {}
        for value, factor in terms:
            total[value] = total.get(value, 0) + factor
        listed = sorted(total.items(), key=lambda item: item[0].number)
        return AffineForm(tuple((value, factor) for value, factor in listed if factor), constant)

    def plus(self, second: AffineForm, factor: int = 1) -> AffineForm:
        """This form and `factor` times a second."""
        terms = [(value, factor * number) for value, number in second.terms]
        return AffineForm.of([*self.terms, *terms], self.constant + factor * second.constant)


@dataclass(frozen=True, slots=True)
class Effect:
    """One access. No root means that it can be anywhere."""

    root: IrValue | None
    form: AffineForm | None
    writes: bool
    size: int
    at: SourceLocation


class Definitions:
    """What defines each value of a kernel, and from that roots and affine forms."""

    def __init__(self, function: ParallelFunction) -> None:
        self.of: dict[IrValue, Operation] = {}
        for operation in walk(function.body):
            if isinstance(operation, Compute | Alloc | Load | Atomic | Warp):
                self.of[operation.result] = operation
        self.outside = {item.value for item in function.parameters}
        self.outside |= {item.value for item in function.symbols}
        self._written: set[IrValue | None] | None = None
        self._body = function.body

    def root(self, base: Operand) -> IrValue | None:
        """Where a pointer comes from; nothing where several values meet, or it was in memory."""
        while isinstance(base, IrValue):
            if base in self.outside:
                return base
            operation = self.of.get(base)
            if isinstance(operation, Alloc):
                return base
            if not isinstance(operation, Compute) or operation.name != "ptradd":
                return None
            base = operation.operands[0]
        return None

    def is_alloc(self, root: IrValue | None) -> bool:
        return root is not None and isinstance(self.of.get(root), Alloc)

    def affine(self, operand: Operand) -> AffineForm | None:
        """The operand as a sum of indices and of values that no operation here defines."""
        terms: dict[IrValue, int] = {}
        constant = self._add(operand, 1, terms)
        if constant is None:
            return None
        listed = sorted(terms.items(), key=lambda item: item[0].number)
        return AffineForm(tuple((first, factor) for first, factor in listed if factor), constant)

    def _add(self, operand: Operand, factor: int, terms: dict[IrValue, int]) -> int | None:
        """Adds a multiple of an operand to the terms; gives its constant part."""
        if isinstance(operand, ConstantOperand):
            return None if isinstance(operand.value, float) else int(operand.value) * factor
        operation = self.of.get(operand)
        if isinstance(operation, Compute):
            name, several = operation.name, operation.operands
            if name == "cast" and several[0].type.is_integer and several[0].type.size <= 4:
                return self._add(several[0], factor, terms)
            if name in ("add", "sub"):
                first = self._add(several[0], factor, terms)
                second = self._add(several[1], factor if name == "add" else -factor, terms)
                return None if first is None or second is None else first + second
            if name == "mul" and isinstance(several[1], ConstantOperand):
                return self._add(several[0], factor * int(several[1].value), terms)
            if name == "mul" and isinstance(several[0], ConstantOperand):
                return self._add(several[1], factor * int(several[0].value), terms)
            if name == "shl" and isinstance(several[1], ConstantOperand):
                return self._add(several[0], factor << int(several[1].value), terms)
        terms[operand] = terms.get(operand, 0) + factor
        return 0

    def form(self, address: Address) -> AffineForm | None:
        """The bytes between an address and its root."""
        terms: dict[IrValue, int] = {}
        total = address.offset
        part = self._add(address.index, address.scale, terms)
        if part is None:
            return None
        total += part
        base = address.base
        while isinstance(base, IrValue):
            operation = self.of.get(base)
            if not isinstance(operation, Compute) or operation.name != "ptradd":
                break
            part = self._add(operation.operands[1], 1, terms)
            if part is None:
                return None
            total += part
            base = operation.operands[0]
        listed = sorted(terms.items(), key=lambda item: item[0].number)
        return AffineForm(tuple((first, factor) for first, factor in listed if factor), total)

    def index_of(self, value: IrValue) -> str | None:
        """Which of a thread's or block's indices a value is."""
        operation = self.of.get(value)
        return operation.name if isinstance(operation, Compute) and not operation.operands else None

    def is_read_only(self, address: Address) -> bool:
        """Whether nothing in the kernel can write where an address points."""
        root = self.root(address.base)
        if self._written is None:
            self._written = {item.root for item in effects(self._body, self) if item.writes}
        return root is not None and not any(
            may_alias(root, second, self) for second in self._written
        )


def may_alias(first: IrValue | None, second: IrValue | None, definitions: Definitions) -> bool:
    """Whether memory of two roots can overlap."""
    if first == second:
        return True
    if definitions.is_alloc(first) or definitions.is_alloc(second):
        return first is None or second is None
    return True


def effects(block: Region, definitions: Definitions) -> list[Effect]:
    """The accesses of a block and everything in it, in order."""
    collected: list[Effect] = []
    for operation in walk(block):
        collected += effects_of(operation, definitions)
    return collected


def effects_of(operation: Operation, definitions: Definitions) -> list[Effect]:
    """The accesses of one operation, without those of its blocks."""
    match operation:
        case Load(result=result, address=address, at=at):
            return [_effect(address, False, result.type, at, definitions)]
        case Store(address=address, type=type, at=at):
            return [_effect(address, True, type, at, definitions)]
        case Atomic(result=result, address=address, at=at):
            # Atomics never conflict with each other, but they do with everything else.
            return [_effect(address, True, result.type, at, definitions)]
        case CallOperation(name="exit" | "clock"):
            return []
        case CallOperation(at=at):
            return [Effect(None, None, True, 0, at)]
        case _:
            return []


def deep_effects(operation: Operation, definitions: Definitions) -> list[Effect]:
    """The accesses of one operation and of its blocks."""
    collected = effects_of(operation, definitions)
    for region in regions(operation):
        collected += effects(region, definitions)
    return collected


def _effect(
    address: Address, writes: bool, type: ScalarType, at: SourceLocation, definitions: Definitions
) -> Effect:
    root = definitions.root(address.base)
    return Effect(root, definitions.form(address), writes, type.size, at)


def conflict(
    first: Effect, second: Effect, definitions: Definitions, block: tuple[int, int, int]
) -> bool:
    """Whether two accesses of different threads can meet, one of them a write."""
    if not (first.writes or second.writes):
        return False
    if not may_alias(first.root, second.root, definitions):
        return False
    if first.root is None or first.root != second.root or first.form is None or second.form is None:
        return True
    if first.form.terms != second.form.terms:
        return True
    return not _separates(first.form, second.form, first.size, second.size, definitions, block)


def _separates(
    first: AffineForm,
    second: AffineForm,
    one_size: int,
    other_size: int,
    definitions: Definitions,
    block: tuple[int, int, int],
) -> bool:
    """Whether such addresses are apart for any two different threads of a block.

    The coefficients are taken by size. The smallest must exceed the bytes accessed, and each later
    one the whole span of those before it, as in a number system of mixed base: 4 x + 64 y with x
    below 16 separates accesses of 4 bytes. What is no thread's index must be the same in all
    threads and at both accesses: parameters and the block's index are, values of a loop may not be.
    """
    span = max(one_size, other_size) + abs(first.constant - second.constant)
    if span > max(one_size, other_size):
        return False
    seen: set[str] = set()
    factors = []
    for value, factor in first.terms:
        name = definitions.index_of(value)
        if name is not None and name.startswith("thread."):
            seen.add(name)
            factors.append((abs(factor), block["xyz".index(name[-1])]))
        elif not (name is not None or value in definitions.outside):
            return False
    if any(
        size > 1 and f"thread.{axis}" not in seen for axis, size in zip("xyz", block, strict=True)
    ):
        return False
    for factor, size in sorted(factors):
        if factor < span:
            return False
        span = factor * (size - 1) + span
    return True
