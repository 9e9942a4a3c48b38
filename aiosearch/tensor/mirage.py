"""Reads the graphs that Mirage saves: JSON, a list of kernel graphs, each a list of operators.

Tensors are linked by number (`guid`); the shape that a file records of each is checked against the
one that follows from the operators. The oldest files have no accumulators: what a block stores
there adds up over its loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from .errors import FormatError, ShapeError, TensorError, UnknownOperator
from .mirage_records import BlockGraph, Checkpoint, Node, Recorded
from .mugraph import Block
from .terms import Program, Term, apply, tensor
from .types import Place

T = TypeVar("T")

_SAME = frozenset(
    ["add", "div", "exp", "gelu", "matmul", "mul", "pow", "relu", "rms_norm", "silu", "sqrt",
     "square"]
)  # fmt: skip
"""Operators of kernels and blocks that are called here as they are there."""
_ACCUMULATORS = {
    "accum_nored": "none",
    "accum_red_ld_sum": "sum",
    "accum_red_ld_mean": "mean",
    "accum_red_ld_rms": "rms",
    "accum_redtox_ld_sum": "redtox",
}
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)


@dataclass(frozen=True, eq=False)
class MirageGraph:
    """One saved graph, which is known to be well-formed."""

    number: int
    inputs: tuple[Term, ...]
    """In the order of the file, which need not be that of the program that was optimised."""
    _nodes: Sequence[Node] = field(repr=False)

    def program(self, inputs: Sequence[Term] | None = None) -> Program:
        """The graph as a program, of these inputs in the place of its own where they are given."""
        given = self.inputs if inputs is None else tuple(inputs)
        if len(given) != len(self.inputs):
            raise ShapeError(f"{len(given)} inputs for a graph that has {len(self.inputs)}")
        return Program(f"graph{self.number}", given, tuple(_read(self._nodes, given)))


def load_mugraphs(data: bytes) -> list[MirageGraph | FormatError]:
    """The graphs of a file; in the place of one that cannot be read, the error that says why.

    Raises FormatError where the file is none of Mirage's.
    """
    try:
        found = msgspec.json.decode(data, type=list[Raw] | Checkpoint)
    except _UNREADABLE as error:
        raise FormatError(f"not a file of Mirage's graphs: {error}") from None
    graphs = found.generated_graphs if isinstance(found, Checkpoint) else found
    if graphs and all(bytes(graph).startswith(b"{") for graph in graphs):
        return [_load(0, data)]  # one graph, not in a list of its own
    return [_load(number, graph) for number, graph in enumerate(graphs)]


def read_mugraph(graph: Any) -> Program:
    """The program that one graph stands for, given as JSON's lists and dictionaries."""
    try:
        nodes = msgspec.convert(graph, type=list[Node])
    except _UNREADABLE as error:
        raise FormatError(f"not a graph of Mirage's: {error}") from None
    return _checked(0, nodes).program()


def _load(number: int, data: bytes | Raw) -> MirageGraph | FormatError:
    try:
        return _checked(number, msgspec.json.decode(data, type=list[Node]))
    except FormatError as error:
        return error
    except _UNREADABLE as error:
        return FormatError(f"not a graph of Mirage's: {error}")


def _checked(number: int, nodes: Sequence[Node]) -> MirageGraph:
    recorded = [
        one for node in nodes if node.op_type == "kn_input_op" for one in node.output_tensors
    ]
    with _at("inputs"):
        inputs = tuple(tensor(f"in{i}", one.dtype, one.shape) for i, one in enumerate(recorded))
    graph = MirageGraph(number, inputs, nodes)
    graph.program()
    return graph


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Says where in the file something is wrong."""
    try:
        yield
    except UnknownOperator:
        raise
    except TensorError as error:
        raise FormatError(f"{where}: {error}") from None


class _Values:
    """Terms by the numbers that the file gives them."""

    def __init__(self) -> None:
        self._terms: dict[int, Term] = {}
        self._unused: dict[int, Term] = {}

    def put(self, recorded: Recorded, term: Term) -> None:
        if recorded.guid in self._terms:
            raise FormatError(f"tensor {recorded.guid} is computed twice")
        _compare(recorded, term)
        self._terms[recorded.guid] = self._unused[recorded.guid] = term

    def get(self, recorded: Recorded) -> Term:
        term = self._terms.get(recorded.guid)
        if term is None:
            raise FormatError(f"tensor {recorded.guid} is used before it is computed")
        _compare(recorded, term)
        self._unused.pop(recorded.guid, None)
        return term

    def all(self, recorded: Sequence[Recorded]) -> list[Term]:
        return [self.get(one) for one in recorded]

    def unused(self) -> list[Term]:
        return list(self._unused.values())


def _compare(recorded: Recorded, term: Term) -> None:
    found = (recorded.dtype, recorded.shape)
    if found != (term.dtype, term.shape):
        shape = ", ".join(map(str, recorded.shape))
        raise FormatError(
            f"tensor {recorded.guid} is recorded as {recorded.dtype}[{shape}]"
            f" where {term.type} is computed"
        )
    if recorded.after_accum not in (None, term.place is Place.AFTER):
        raise FormatError(f"tensor {recorded.guid} is recorded on the other side of the loop's end")


def _read(nodes: Sequence[Node], inputs: Sequence[Term]) -> list[Term]:
    """The outputs of a kernel graph."""
    values = _Values()
    outputs: list[Term] = []
    left = iter(inputs)
    for place, node in enumerate(nodes):
        with _at(f"operator {place}, {node.op_type}"):
            if node.op_type == "kn_input_op":
                for recorded in node.output_tensors:
                    values.put(recorded, next(left))
            elif node.op_type == "kn_output_op":
                outputs += values.all(node.input_tensors)
            elif node.op_type == "kn_customized_op":
                _read_kernel(node, values)
            else:
                found = _kernel_operation(node, values.all(node.input_tensors))
                values.put(_only(node.output_tensors), found)
    outputs = outputs or [term for term in values.unused() if term not in inputs]
    if not outputs:
        raise FormatError("the graph computes nothing")
    return outputs


def _kernel_operation(node: Node, operands: Sequence[Term]) -> Term:
    name = _name(node, "kn")
    if found := re.fullmatch("reduction_([0-2])", name):
        axis, shape = int(found[1]), _only(node.output_tensors).shape
        if axis < len(shape) and shape[axis] != 1:
            return apply("fold", *operands, axis=axis, size=shape[axis])
    return _operation(node, name, operands)


def _read_kernel(node: Node, values: _Values) -> None:
    if node.bgraph is None:
        raise FormatError("no block graph")
    values.all(node.input_tensors)
    stored = _BlockReader(node.bgraph, values).stored()
    given = {recorded.guid: recorded for recorded in node.output_tensors}
    if {recorded.guid for recorded, _ in stored} != given.keys():
        raise FormatError("other tensors are stored than the kernel is recorded to give")
    for recorded, term in stored:
        _compare(given[recorded.guid], term)
        values.put(recorded, term)


class _BlockReader:
    """Turns one block graph's operators into terms."""

    def __init__(self, graph: BlockGraph, device: _Values) -> None:
        grid = graph.grid_dim
        self._graph = graph
        self._device = device
        self._block = Block((grid.x, grid.y, grid.z), graph.forloop_range)
        self._tiles = _Values()
        self._stores: list[tuple[Recorded, Term, list[int | None]]] = []

    def stored(self) -> list[tuple[Recorded, Term]]:
        for place, node in enumerate(self._graph.operators):
            with _at(f"block operator {place}, {node.op_type}"):
                if node.op_type == "tb_output_op":
                    self._store(node)
                else:
                    self._tiles.put(_only(node.output_tensors), self._tile(node))
        terms = self._block.results(*((tile, maps) for _, tile, maps in self._stores))
        return [(store[0], term) for store, term in zip(self._stores, terms, strict=True)]

    def _tile(self, node: Node) -> Term:
        if node.op_type == "tb_input_op":
            return self._load(node)
        name = _name(node, "tb")
        operands = self._tiles.all(node.input_tensors)
        columns = self._graph.reduction_dimx
        kind = _ACCUMULATORS.get(name.removeprefix("forloop_"))
        if kind is not None:
            return self._block.accumulate(_only(operands), kind, columns)
        if found := re.fullmatch("reduction_([0-2])_to_dimx", name):
            return apply("fold", *operands, axis=int(found[1]), size=columns)
        if found := re.fullmatch("concat_([0-2])", name):
            return apply("concatenate", *operands, axis=int(found[1]))
        if name == "concat_then_matmul":
            return _concat_then_matmul(operands)
        return _operation(node, name, operands)

    def _load(self, node: Node) -> Term:
        if node.dtensor is None or node.input_map is None:
            raise FormatError("no dtensor or no input_map")
        source = self._device.get(node.dtensor)
        maps = node.input_map.map(self._graph.grid_dim)
        whole = node.forloop_dim == -1 or self._graph.forloop_range == 1
        return self._block.load(source, maps, None if whole else node.forloop_dim)

    def _store(self, node: Node) -> None:
        if node.dtensor is None or node.output_map is None:
            raise FormatError("no dtensor or no output_map")
        recorded = _only(node.input_tensors)
        tile = self._tiles.get(recorded)
        if tile.place is Place.LOOP and recorded.after_accum is None:
            tile = self._block.accumulate(tile)
        self._stores.append((node.dtensor, tile, node.output_map.map(self._graph.grid_dim)))


def _operation(node: Node, name: str, operands: Sequence[Term]) -> Term:
    """The operators that kernel graphs and block graphs have in common."""
    if name in _SAME:
        return apply(name, *operands)
    if found := re.fullmatch("reduction_([0-2])", name):
        return apply("sum", *operands, axes=(int(found[1]),), keep=True)
    if name == "clamp":
        if node.min_val is None or node.max_val is None:
            raise FormatError("the file does not say the bounds")
        return apply("clamp", *operands, low=node.min_val, high=node.max_val)
    raise UnknownOperator(node.op_type)


def _concat_then_matmul(operands: Sequence[Term]) -> Term:
    if len(operands) != 4:
        raise FormatError(f"{len(operands)} operands instead of 4")
    w, x, y, z = operands
    last = len(w.shape) - 1
    left = apply("concatenate", w, x, axis=last)
    return apply("matmul", left, apply("concatenate", y, z, axis=last - 1))


def _name(node: Node, level: str) -> str:
    """What is between `kn_` or `tb_` and `_op`."""
    found = re.fullmatch(f"{level}_(.*)_op", node.op_type)
    if found is None:
        raise UnknownOperator(node.op_type)
    return found[1]


def _only(items: Sequence[T]) -> T:
    if len(items) != 1:
        raise FormatError(f"{len(items)} tensors instead of one")
    return items[0]
