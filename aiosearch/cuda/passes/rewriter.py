"""Replacing values throughout a block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..ir.operations import (
    Address,
    Atomic,
    CallOperation,
    Compute,
    For,
    If,
    IrValue,
    Load,
    Operand,
    Operation,
    Region,
    Store,
    Threads,
    Warp,
    While,
)


def substituted(block: Region, values: Mapping[IrValue, Operand]) -> Region:
    """The block with values replaced, by what their replacements are replaced by in turn."""
    if not values:
        return block

    def final(operand: Operand) -> Operand:
        while isinstance(operand, IrValue) and operand in values:
            operand = values[operand]
        return operand

    def several(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(map(final, operands))

    def address(old: Address) -> Address:
        return replace(old, base=final(old.base), index=final(old.index))

    def whole(old: Region) -> Region:
        return Region(tuple(map(first, old.operations)), several(old.yields))

    def first(operation: Operation) -> Operation:
        match operation:
            case Compute() | Warp() | CallOperation():
                return replace(operation, operands=several(operation.operands))
            case Load():
                return replace(operation, address=address(operation.address))
            case Store():
                return replace(
                    operation, address=address(operation.address), value=final(operation.value)
                )
            case Atomic():
                return replace(
                    operation,
                    address=address(operation.address),
                    operand=final(operation.operand),
                    compare=None if operation.compare is None else final(operation.compare),
                )
            case If():
                return replace(
                    operation,
                    condition=final(operation.condition),
                    then=whole(operation.then),
                    otherwise=whole(operation.otherwise),
                )
            case For():
                return replace(
                    operation,
                    low=final(operation.low),
                    high=final(operation.high),
                    initial=several(operation.initial),
                    body=whole(operation.body),
                )
            case While():
                return replace(
                    operation, initial=several(operation.initial), body=whole(operation.body)
                )
            case Threads():
                return replace(operation, body=whole(operation.body))
            case _:
                return operation

    return whole(block)
