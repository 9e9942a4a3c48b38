"""The IR as text, one line for each operation, written by `printed` and read by `parsed`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from ..errors import TextError
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
    MemorySpace,
    Operand,
    Operation,
    ParallelFunction,
    Parameter,
    Region,
    Store,
    Symbol,
    Threads,
    Warp,
    While,
)
from .types import ScalarType

_VALUE = re.compile(r"%(\d+)(?:\.([^\s,:\]\)]+))?")
_DEFINED = re.compile(r"%(\d+)(?:\.([^\s,:]+))?: (\w+)")
_CONSTANT = re.compile(r"([^\s:,]+):(\w+)")
_HEAD = re.compile(r"(kernel|host) @(\S+?)\((.*)\) \{$")
_PARAMETER = re.compile(r"(%\S+) (\S+): (\w+)(?: (const )?(\w+|\?) (\d+))?$")
_SYMBOL = re.compile(r"symbol (%\S+) (\S+): (\w+) (\d+)(?: = (.*))?$")
_ADDRESS = re.compile(r"\[(\S+)(?: \+ (\S+) \* (-?\d+))?(?: \+ (-?\d+))?\]")
_FOR = re.compile(r"for (%\S+: \w+) = (\S+) to (\S+) step (-?\d+)(?: \((.*)\))? \{$")
_WHILE = re.compile(r"while(?: \((.*)\))? \{$")
_CALL = re.compile(r'call (\S+) "(.*?)"(?: (.*))?$')


def printed(function: ParallelFunction) -> str:
    """The text of a function; `parsed` makes an equal one of it, without locations."""
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
    return f" ({', '.join(f'{_defined(value)} = {_operand(start)}' for value, start in pairs)})"


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


def parsed(text: str) -> ParallelFunction:
    """Gives the function of a text; raises TextError that names the line which it cannot read."""
    return _IrReader(text).function()


class _IrReader:
    def __init__(self, text: str) -> None:
        self._lines = [line.strip() for line in text.splitlines()]
        self._place = 0
        self._values: dict[int, IrValue] = {}

    def _error(self, reason: str) -> TextError:
        line = self._lines[self._place - 1] if self._place <= len(self._lines) else ""
        return TextError(f"line {self._place}: {reason}: {line}")

    def _next(self) -> str:
        while self._place < len(self._lines):
            line = self._lines[self._place]
            self._place += 1
            if line:
                return line
        self._place += 1
        raise self._error("the text ends inside of a function")

    def function(self) -> ParallelFunction:
        symbols: list[Symbol] = []
        line = self._next()
        while (match := _SYMBOL.match(line)) is not None:
            name, label, element, size, numbers = match.groups()
            value = self._define(f"{name}: ptr")
            initial = None if numbers is None else tuple(map(_parsed_number, numbers.split()))
            symbols.append(Symbol(value, label, int(size), self._type(element), initial))
            line = self._next()
        head = _HEAD.match(line)
        if head is None:
            raise self._error("this begins no kernel and no host function")
        kind, name, listed = head.groups()
        parameters = tuple(self._parameter(item) for item in listed.split(", ") if item)
        body, end = self._block()
        if end != "}":
            raise self._error("this ends no function")
        return ParallelFunction(name, parameters, body, tuple(symbols), kind == "kernel")

    def _parameter(self, text: str) -> Parameter:
        match = _PARAMETER.match(text)
        if match is None:
            raise self._error(f"{text} is no parameter")
        value, name, type, const, element, stride = match.groups()
        defined = self._define(f"{value}: {type}")
        if stride is None:
            return Parameter(defined, name)
        target = None if element == "?" else self._type(element)
        return Parameter(defined, name, target, const is not None, int(stride))

    def _block(self) -> tuple[Region, str]:
        """The operations up to a closing brace, and the line with that."""
        operations: list[Operation] = []
        yields: tuple[Operand, ...] = ()
        while True:
            line = self._next()
            if line.startswith("}"):
                return Region(tuple(operations), yields), line
            if line.startswith("yield "):
                yields = self._operands(line.removeprefix("yield "))
            else:
                operations.append(self._operation(line))

    def _operation(self, line: str) -> Operation:
        defined: list[str] = []
        remaining = line
        while (match := _DEFINED.match(remaining)) is not None:
            defined.append(match.group())
            remaining = remaining[match.end() :].removeprefix(", ").removeprefix(" = ")
        word = remaining.split(" ", 1)[0]
        for start, read in _KINDS.items():
            if word == start or (start.endswith(".") and word.startswith(start)):
                return read(self, remaining, defined)
        if word.startswith("while"):
            return self._while(remaining, defined)
        name, _, tail = remaining.partition(" ")
        operands = self._operands(tail)
        return Compute(self._single(defined), name, operands)

    def _single(self, defined: list[str]) -> IrValue:
        if len(defined) != 1:
            raise self._error("this gives one value")
        return self._define(defined[0])

    def _define(self, text: str) -> IrValue:
        match = _DEFINED.match(text)
        if match is None:
            raise self._error(f"{text} is no value with its type")
        number, hint, type = match.groups()
        value = IrValue(int(number), self._type(type), hint or "")
        self._values[value.number] = value
        return value

    def _type(self, name: str) -> ScalarType:
        try:
            return ScalarType(name)
        except ValueError:
            raise self._error(f"{name} is no type") from None

    def _operands(self, text: str) -> tuple[Operand, ...]:
        return tuple(self._operand(item) for item in text.split(", ") if item)

    def _operand(self, text: str) -> Operand:
        match = _VALUE.match(text)
        if match is not None:
            value = self._values.get(int(match.group(1)))
            if value is None:
                raise self._error(f"{text} is not defined before")
            return value
        match = _CONSTANT.match(text)
        if match is None:
            raise self._error(f"{text} is no operand")
        return ConstantOperand(_parsed_number(match.group(1)), self._type(match.group(2)))

    def _address(self, text: str) -> tuple[Address, str]:
        """An address, and the text behind it."""
        match = _ADDRESS.match(text)
        if match is None:
            raise self._error(f"{text} is no address")
        base, index, scale, offset = match.groups()
        address = Address(self._operand(base), offset=int(offset or 0))
        if index is not None:
            address = Address(
                self._operand(base), self._operand(index), int(scale), int(offset or 0)
            )
        return address, text[match.end() :].removeprefix(", ")

    # --- operations

    def _load(self, remaining: str, defined: list[str]) -> Operation:
        address, _ = self._address(remaining.removeprefix("load "))
        return Load(self._single(defined), address)

    def _store(self, remaining: str, defined: list[str]) -> Operation:
        _, type, tail = remaining.split(" ", 2)
        address, value = self._address(tail)
        return Store(address, self._operand(value), self._type(type))

    def _atomic(self, remaining: str, defined: list[str]) -> Operation:
        word, tail = remaining.split(" ", 1)
        address, behind = self._address(tail)
        operand, *remaining_values = self._operands(behind)
        compare = remaining_values[0] if remaining_values else None
        return Atomic(
            self._single(defined), word.removeprefix("atomic."), address, operand, compare
        )

    def _alloc(self, remaining: str, defined: list[str]) -> Operation:
        _, space, element, size = remaining.split(" ")
        amount = None if size == "dynamic" else int(size)
        return Alloc(self._single(defined), MemorySpace(space), amount, self._type(element))

    def _warp(self, remaining: str, defined: list[str]) -> Operation:
        word, tail = remaining.split(" ", 1)
        return Warp(self._single(defined), word.removeprefix("warp."), self._operands(tail))

    def _barrier(self, remaining: str, defined: list[str]) -> Operation:
        _, level, dims = remaining.split(" ")
        return Barrier(dims, level)

    def _call(self, remaining: str, defined: list[str]) -> Operation:
        match = _CALL.match(remaining)
        if match is None:
            raise self._error("this is no call")
        name, quoted, tail = match.groups()
        operands = self._operands(tail or "")
        text = quoted.encode().decode("unicode_escape")
        result = self._define(defined[0]) if defined else None
        return CallOperation(name, operands, text, result)

    def _if(self, remaining: str, defined: list[str]) -> Operation:
        condition = self._operand(remaining.removeprefix("if ").removesuffix(" {"))
        then, end = self._block()
        otherwise = Region()
        if end == "} else {":
            otherwise, end = self._block()
        return If(condition, then, otherwise, tuple(map(self._define, defined)))

    def _for(self, remaining: str, defined: list[str]) -> Operation:
        match = _FOR.match(remaining)
        if match is None:
            raise self._error("this is no loop that counts")
        counter, low, high, step, carried = match.groups()
        bounds = self._operand(low), self._operand(high)
        values, initial = self._carried(carried)
        index = self._define(counter)
        body, _ = self._block()
        results = tuple(map(self._define, defined))
        return For(index, *bounds, int(step), values, initial, body, results)

    def _while(self, remaining: str, defined: list[str]) -> Operation:
        match = _WHILE.match(remaining)
        if match is None:
            raise self._error("this is no loop")
        values, initial = self._carried(match.group(1))
        body, _ = self._block()
        return While(values, initial, body, tuple(map(self._define, defined)))

    def _carried(self, text: str | None) -> tuple[tuple[IrValue, ...], tuple[Operand, ...]]:
        if not text:
            return (), ()
        pairs = [item.split(" = ") for item in text.split(", ")]
        initial = tuple(self._operand(second) for _, second in pairs)
        return tuple(self._define(first) for first, _ in pairs), initial

    def _threads(self, remaining: str, defined: list[str]) -> Operation:
        body, _ = self._block()
        return Threads(body)


def _parsed_number(text: str) -> int | float | bool:
    if text in ("true", "false"):
        return text == "true"
    if text.lstrip("-").startswith("0x"):
        return float.fromhex(text)
    if text in ("inf", "-inf", "nan"):
        return float(text)
    return int(text)


_KINDS: dict[str, Callable[[_IrReader, str, list[str]], Operation]] = {
    "load": _IrReader._load,
    "store": _IrReader._store,
    "atomic.": _IrReader._atomic,
    "alloc": _IrReader._alloc,
    "warp.": _IrReader._warp,
    "barrier": _IrReader._barrier,
    "call": _IrReader._call,
    "if": _IrReader._if,
    "for": _IrReader._for,
    "threads": _IrReader._threads,
}
