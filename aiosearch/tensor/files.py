"""Programs as JSON of a stated version: nodes in a list, which name one another by number.

`from_json(to_json(program))` is the program itself. Documents come from users and other machines:
the structs below reject unknown fields, `checked_terms` bounds sizes, and errors name the node.
Names of structs and fields are the format: `aiosearch.program`, version 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from ..documents import Document, JsonValue
from .errors import FormatError, TensorError, UnknownOperator
from .mugraph import ACCUMULATE, LOAD, READ, RESULT, WRITE, Block, Kernel, read, results, write
from .operator import OperatorParameter, ParameterKind, ParameterValue
from .sizes import Dim, Size
from .syntax.checked_terms import (
    BLOCK_PARAMETERS,
    KERNEL_PARAMETERS,
    MOST_BYTES,
    build,
    check,
    check_shape,
    declared,
)
from .syntax.literals import parse_number, parse_size
from .syntax.printer import number_text, size_text
from .syntax.statement_order import graph_steps
from .terms import INPUT, LITERAL, Program, Term, checked, literal, tensor

EXACT = 1 << 53
"""Integers up to 2^53 are JSON numbers, which every reader holds exactly.

Larger ones are strings.
"""

Whole: TypeAlias = Annotated[int, Meta(ge=-EXACT, le=EXACT)]
"""An integer that a JSON number holds exactly."""
Value: TypeAlias = "bool | Whole | float | str | list[Whole | str | None] | None"
"""A parameter's value."""


class JsonHeader(Struct, frozen=True):
    """The fields that every version begins with, read before `JsonProgram`."""

    format: str
    version: int


class JsonInput(Struct, frozen=True, forbid_unknown_fields=True):
    """An input of a program."""

    name: str
    dtype: str
    shape: list[Whole | str]
    labels: list[str | None]


class JsonStore(Struct, frozen=True, forbid_unknown_fields=True):
    """A tile by its number in the block, and the data axis of each grid axis (`map`)."""

    tile: int
    map: list[Whole | None]


class JsonBlockNode(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An operator in a block graph; operands are numbers in it, those of `load` in the program."""

    op: str
    args: list[int] = []
    params: dict[str, Value] = {}


class JsonNode(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An operator; or a `kernel` with its block graph, whose outputs are `result` nodes."""

    op: str
    args: list[int] = []
    params: dict[str, Value] = {}
    block: list[JsonBlockNode] = []
    stores: list[JsonStore] = []


class JsonProgram(Struct, frozen=True, forbid_unknown_fields=True):
    """A program: inputs are numbered from 0, `nodes` from there on."""

    format: str
    version: int
    name: str
    inputs: list[JsonInput]
    nodes: list[JsonNode]
    outputs: list[int]


FORMAT = "aiosearch.program"
"""The value of the field `format`."""
VERSION = 1
"""The version that is written; documents of later versions are refused."""

T = TypeVar("T")


def to_json(program: Program) -> bytes:
    """The program as a JSON document that `from_json` reads back."""
    return msgspec.json.encode(_document(program))


def to_dict(program: Program) -> Document:
    """The content of `to_json`, as plain dictionaries and lists."""
    return msgspec.to_builtins(_document(program))  # type: ignore[no-any-return]  # of a Struct: a dict


def from_json(data: bytes | str) -> Program:
    """The program of a document; raises FormatError for anything else."""
    if len(data) > MOST_BYTES:
        raise FormatError(f"a file of {len(data)} bytes: there may be {MOST_BYTES}")
    return _read(lambda type_: msgspec.json.decode(data, type=type_))


def from_dict(document: JsonValue) -> Program:
    """The program of what `to_dict` gave; raises FormatError for anything else."""
    return _read(lambda type_: msgspec.convert(document, type_))


# Writing


def _document(program: Program) -> JsonProgram:
    """The document of a program."""
    numbers: dict[object, int] = {term: number for number, term in enumerate(program.inputs)}
    nodes: list[JsonNode] = []

    def add(what: object, node: JsonNode) -> None:
        # Numbers grow with the list, so that a node can only name what is before it: no cycle can
        # be written.
        numbers[what] = len(program.inputs) + len(nodes)
        nodes.append(node)

    for step in graph_steps(program):
        if isinstance(step, Kernel):
            add(step, _kernel_node(step, numbers))
            for index, term in enumerate(results(step)):
                add(term, JsonNode("result", [numbers[step]], {"index": index}))
        elif step.operator is not INPUT:
            args = [numbers[argument] for argument in step.arguments]
            add(step, JsonNode(step.operator.name, args, _params(step)))
    inputs = [_input(term) for term in program.inputs]
    outputs = [numbers[output] for output in program.outputs]
    return JsonProgram(FORMAT, VERSION, program.name, inputs, nodes, outputs)


def _input(term: Term) -> JsonInput:
    shape = [_dim_value(size) for size in term.shape]
    return JsonInput(term.parameter("name"), str(term.dtype), shape, list(term.parameter("labels")))


def _kernel_node(kernel: Kernel, outside: dict[object, int]) -> JsonNode:
    numbers: dict[object, int] = {}
    block: list[JsonBlockNode] = []
    for term in kernel.body:
        # Loads name tensors of the program, all other operators terms of the block.
        scope = outside if term.operator is LOAD else numbers
        args = [scope[argument] for argument in term.arguments]
        numbers[term] = len(block)
        block.append(JsonBlockNode(term.operator.name, args, _params(term)))
    stores = [JsonStore(numbers[tile], list(maps)) for tile, maps in kernel.outputs]
    params = {"grid": _value(kernel.grid), "range": _value(kernel.range)}
    return JsonNode("kernel", [], params, block, stores)


def _params(term: Term) -> dict[str, Value]:
    """A term's parameters, without those that the kernel around implies."""
    written = BLOCK_PARAMETERS.get(term.operator.name)
    names = None if written is None else {parameter.name for parameter in written}
    return {
        name: _value(value) for name, value in term.parameters if names is None or name in names
    }


def _value(value: ParameterValue) -> JsonValue:
    """A parameter's value in JSON; symbolic sizes and large integers are strings."""
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    if isinstance(value, (Size, Fraction)):
        return number_text(value)
    if isinstance(value, float):
        # JSON has no infinity.
        return value if math.isfinite(value) else number_text(value)
    if isinstance(value, int) and abs(value) > EXACT:
        return number_text(value)
    return value


def _dim_value(size: Dim) -> int | str:
    return size_text(size) if isinstance(size, Size) else size


# Reading


def _read(decode: Callable[[JsonValue], JsonValue]) -> Program:
    """Decodes the header, then the document of its version."""
    try:
        # The version first: a later one may have fields that `JsonProgram` refuses.
        header = decode(JsonHeader)
        if header.format != FORMAT:
            raise FormatError(f"the format is {header.format!r}, not {FORMAT!r}")
        if not 1 <= header.version <= VERSION:
            raise FormatError(
                f"version {header.version} of {FORMAT}: this aiosearch reads up to {VERSION}"
            )
        document = decode(JsonProgram)
    # RecursionError: nesting beyond the decoder's limit is a bad document, too.
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FormatError(f"no {FORMAT}: {error}") from error
    return _JsonReader(document).program()


class _JsonReader:
    """Builds terms node by node.

    `_entries` holds a term, or the results of a kernel, for each number.
    """

    def __init__(self, document: JsonProgram) -> None:
        self._document = document
        self._entries: list[Term | tuple[Term, ...]] = []

    def program(self) -> Program:
        document = self._document
        for number, input_ in enumerate(document.inputs):
            self._entries.append(_placed(f"input {number}", _tensor, input_))
        inputs = tuple(entry for entry in self._entries if isinstance(entry, Term))
        for node in document.nodes:
            where = f"node {len(self._entries)} ({node.op})"
            self._entries.append(_placed(where, self._node, node))
        outputs = _placed("outputs", self._terms, document.outputs)
        return _placed("program", Program, document.name, inputs, outputs)

    def _term(self, number: int) -> Term:
        entry = _entry(self._entries, number)
        if isinstance(entry, Term):
            return entry
        raise FormatError(f"{number} is a kernel: one of its results is meant")

    def _terms(self, numbers: Sequence[int]) -> tuple[Term, ...]:
        return tuple(map(self._term, numbers))

    def _node(self, node: JsonNode) -> Term | tuple[Term, ...]:
        if node.op == "kernel":
            return self._kernel(node)
        if node.block or node.stores:
            raise FormatError("only a kernel has a block graph")
        if node.op == RESULT.name:
            return self._result(node)
        return _applied(node.op, self._terms(node.args), node.params)

    def _result(self, node: JsonNode) -> Term:
        if len(node.args) != 1 or node.params.keys() != {"index"}:
            raise FormatError("a result has a kernel and an index")
        kernel, index = _entry(self._entries, node.args[0]), node.params["index"]
        # True is an int in Python, and no index.
        if isinstance(kernel, Term) or not isinstance(index, int) or isinstance(index, bool):
            raise FormatError("a result has a kernel and an index")
        return _entry(kernel, index)

    def _kernel(self, node: JsonNode) -> tuple[Term, ...]:
        parameters = _given(KERNEL_PARAMETERS, node.params)
        if node.args or len(parameters) != len(KERNEL_PARAMETERS):
            raise FormatError("a kernel has grid and range, and loads its operands")
        grid, count = (
            checked(parameter, parameters[parameter.name]) for parameter in KERNEL_PARAMETERS
        )
        check_shape((*grid, count))
        block = Block(grid, count)
        tiles: list[Term] = []
        for number, inner in enumerate(node.block):
            where = f"block node {number} ({inner.op})"
            tiles.append(_placed(where, self._tile, block, tiles, inner))
        stores = [(_entry(tiles, store.tile), tuple(store.map)) for store in node.stores]
        return tuple(check(term) for term in block.results(*stores))

    def _tile(self, block: Block, tiles: Sequence[Term], node: JsonBlockNode) -> Term:
        makers: dict[str, Callable[..., Term]] = {
            LOAD.name: block.load,
            ACCUMULATE.name: block.accumulate,
            READ.name: read,
            WRITE.name: write,
        }
        maker = makers.get(node.op)
        outside = node.op == LOAD.name
        operands = [self._term(n) if outside else _entry(tiles, n) for n in node.args]
        if maker is None:
            return _applied(node.op, operands, node.params)
        if len(operands) != 1:
            raise FormatError(f"{node.op} takes one operand, not {len(operands)}")
        parameters = _given(BLOCK_PARAMETERS.get(node.op, ()), node.params)
        return check(maker(operands[0], **parameters))


def _placed(where: str, make: Callable[..., T], *arguments: object) -> T:
    """The result of `make`; an error in it names the place."""
    try:
        return make(*arguments)
    except UnknownOperator as error:
        inner = f", {error.where}" if error.where else ""
        raise UnknownOperator(error.name, f"{where}{inner}") from None
    except TensorError as error:
        raise FormatError(f"{where}: {error}") from error


def _entry(entries: Sequence[T], number: int) -> T:
    if not 0 <= number < len(entries):
        raise FormatError(f"{number} is none of the {len(entries)} before it")
    return entries[number]


def _tensor(document: JsonInput) -> Term:
    shape = [_dim(size) for size in document.shape]
    check_shape(shape)
    return tensor(document.name, document.dtype, shape, document.labels)


def _applied(op: str, operands: Sequence[Term], params: dict[str, Value]) -> Term:
    """A literal, or an operator applied to operands."""
    if op == LITERAL.name and not operands and params.keys() == {"value"}:
        value = _parameter(LITERAL.parameters[0], params["value"])
        check_shape([value] if isinstance(value, Size) else [])
        return literal(value)
    operator = declared(op)
    if operator is None:
        raise FormatError(f"{op} has no place here")
    return build(operator, operands, _given(operator.parameters, params))


def _given(
    parameters: Sequence[OperatorParameter], params: dict[str, Value]
) -> dict[str, ParameterValue]:
    """Parameters by name, converted from JSON; raises FormatError for unknown ones."""
    by_name = {parameter.name: parameter for parameter in parameters}
    unknown = params.keys() - by_name.keys()
    if unknown:
        raise FormatError(f"no parameter {', '.join(sorted(unknown))}")
    return {name: _parameter(by_name[name], value) for name, value in params.items()}


def _parameter(parameter: OperatorParameter, value: ParameterValue) -> ParameterValue:
    if isinstance(value, list):
        return tuple(_parameter(parameter, item) for item in value)
    if isinstance(value, str) and parameter.kind in (ParameterKind.SIZE, ParameterKind.SHAPE):
        return parse_size(value)
    if isinstance(value, str) and parameter.kind is ParameterKind.NUMBER:
        return parse_number(value)
    return value


def _dim(value: int | str) -> Dim:
    return parse_size(value) if isinstance(value, str) else value
