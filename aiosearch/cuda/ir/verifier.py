"""Whether a function is well-formed: every value is defined once, before and around its uses."""

from __future__ import annotations

from collections.abc import Set

from ..errors import CudaError
from .operations import (
    For,
    If,
    IrValue,
    ParallelFunction,
    Region,
    While,
    inner,
    operands,
    regions,
    results,
)


def verify(function: ParallelFunction) -> None:
    """Raises CudaError that names the first value that is used where it is not defined."""
    outside = {item.value for item in function.parameters}
    outside |= {item.value for item in function.symbols}
    _block(function.body, outside, set(outside), function.name)


def _block(block: Region, visible: Set[IrValue], defined: set[IrValue], name: str) -> None:
    here = set(visible)
    for operation in block.operations:
        for operand in operands(operation):
            _require(operand, here, name)
        local = inner(operation)
        for region in regions(operation):
            _block(region, here | set(local), defined, name)
        _count(operation, name)
        for value in results(operation):
            if value in defined:
                raise CudaError(f"{name}: %{value.number} is defined twice")
            defined.add(value)
            here.add(value)
    for operand in block.yields:
        _require(operand, here, name)


def _require(operand: object, visible: set[IrValue], name: str) -> None:
    if isinstance(operand, IrValue) and operand not in visible:
        raise CudaError(f"{name}: %{operand.number} is used where it is not defined")


def _count(operation: object, name: str) -> None:
    """Blocks yield as many values as their operation takes."""
    match operation:
        case If(then=then, otherwise=otherwise, results=several):
            right = len(then.yields) == len(otherwise.yields) == len(several)
        case (
            For(body=body, carried=carried, initial=initial, results=several)
            | While(body=body, carried=carried, initial=initial, results=several)
        ):
            right = len(body.yields) == len(carried) == len(initial) == len(several)
        case _:
            return
    if not right:
        raise CudaError(f"{name}: an operation does not take as many values as its blocks yield")
