"""The IR as text, the same way in and out: see `parsing` for the other direction."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .operations import (
    Address,
    Alloc,
    Atomic,
    Barrier,
    CallOperation,
    Compute,
    ConstantOperand,
    For,
    If,
    IrValue,
    Load,
    Operand,
    Operation,
    ParallelFunction,
    Region,
    Store,
    Threads,
    Warp,
    While,
)


def printed(function: ParallelFunction) -> str:
    """The text of a function; `parsing.parsed` makes an equal one of it, without locations."""
    lines = []
    for symbol in function.symbols:
        values = "" if symbol.initial is None else " = " + " ".join(map(_number, symbol.initial))
        lines.append(
            f"symbol {_value(symbol.value)} {symbol.name}: {symbol.element} {symbol.size}{values}"
        )
    listed = ", ".join(
        f"{_value(item.value)} {item.name}: {item.value.type}"
        + (
            f" {'const ' if item.const else ''}{item.element or '?'} {item.stride}"
            if item.stride
            else ""
        )
        for item in function.parameters
    )
    kind = "kernel" if function.is_kernel else "host"
    lines.append(f"{kind} @{function.name}({listed}) {{")
    lines += _block(function.body, "  ")
    lines.append("}")
    return "\n".join(lines) + "\n"


def _block(block: Region, indent: str) -> Iterator[str]:
    for operation in block.operations:
        yield from _operation(operation, indent)
    if block.yields:
        yield f"{indent}yield {_operands(block.yields)}"


def _operation(operation: Operation, indent: str) -> Iterator[str]:
    match operation:
        case Compute(result, name, operands):
            yield f"{indent}{_defined(result)} = {name} {_operands(operands)}".rstrip()
        case Load(result, address):
            yield f"{indent}{_defined(result)} = load {_address(address)}"
        case Store(address, value, type):
            yield f"{indent}store {type} {_address(address)}, {_operand(value)}"
        case Atomic(result, name, address, operand, compare):
            extra = "" if compare is None else f", {_operand(compare)}"
            text = f"{_address(address)}, {_operand(operand)}{extra}"
            yield f"{indent}{_defined(result)} = atomic.{name} {text}"
        case Alloc(result, space, size, element):
            amount = "dynamic" if size is None else str(size)
            yield f"{indent}{_defined(result)} = alloc {space} {element} {amount}"
        case Warp(result, name, operands):
            yield f"{indent}{_defined(result)} = warp.{name} {_operands(operands)}"
        case Barrier(dims, level):
            yield f"{indent}barrier {level} {dims}"
        case CallOperation(name, operands, text, result):
            head = "" if result is None else f"{_defined(result)} = "
            quoted = text.encode("unicode_escape").decode().replace('"', r"\x22")
            yield f'{indent}{head}call {name} "{quoted}" {_operands(operands)}'.rstrip()
        case _:
            yield from _structured(operation, indent)


def _structured(operation: Operation, indent: str) -> Iterator[str]:
    inner = indent + "  "
    match operation:
        case If(condition, then, otherwise, results):
            yield f"{indent}{_head(results)}if {_operand(condition)} {{"
            yield from _block(then, inner)
            if otherwise.operations or otherwise.yields:
                yield f"{indent}}} else {{"
                yield from _block(otherwise, inner)
        case For(counter, low, high, step, carried, initial, body, results):
            bounds = f"{_operand(low)} to {_operand(high)} step {step}"
            head = f"{_head(results)}for {_defined(counter)} = {bounds}"
            yield f"{indent}{head}{_carried(carried, initial)} {{"
            yield from _block(body, inner)
        case While(carried, initial, body, results):
            yield f"{indent}{_head(results)}while{_carried(carried, initial)} {{"
            yield from _block(body, inner)
        case Threads(body):
            yield f"{indent}threads {{"
            yield from _block(body, inner)
    yield f"{indent}}}"


def _head(results: tuple[IrValue, ...]) -> str:
    return f"{', '.join(map(_defined, results))} = " if results else ""


def _carried(carried: tuple[IrValue, ...], initial: tuple[Operand, ...]) -> str:
    if not carried:
        return ""
    pairs = zip(carried, initial, strict=True)
    return f" ({', '.join(f'{_defined(one)} = {_operand(other)}' for one, other in pairs)})"


def _defined(value: IrValue) -> str:
    return f"{_value(value)}: {value.type}"


def _value(value: IrValue) -> str:
    return f"%{value.number}{'.' + value.hint if value.hint else ''}"


def _operands(operands: tuple[Operand, ...]) -> str:
    return ", ".join(map(_operand, operands))


def _operand(operand: Operand) -> str:
    if isinstance(operand, ConstantOperand):
        return f"{_number(operand.value)}:{operand.type}"
    return _value(operand)


def _number(value: int | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return value.hex() if math.isfinite(value) else str(value)
    return str(value)


def _address(address: Address) -> str:
    text = _operand(address.base)
    if address.index != Address(address.base).index or address.scale != 1:
        text += f" + {_operand(address.index)} * {address.scale}"
    return f"[{text} + {address.offset}]" if address.offset else f"[{text}]"
