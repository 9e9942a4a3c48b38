"""Reader of the µgraphs that Mirage saves as JSON, and the match of their inputs with a program's.

Tensors are linked by number (`guid`); the shape that a file records of each is checked against the
one that follows from the operators. The oldest files have no accumulators: what a block stores
there adds up over its loop.

The structs hold Mirage's fields by their names in the file. Files do not keep the names of inputs:
`pairs` tries every assignment of a graph's inputs to those of a program that fits by shape and
type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct

from ..documents import JsonValue
from .errors import FormatError, ShapeError, TensorError, UnknownOperator
from .mugraph import Block
from .programs import Builtin
from .sizes import Dim
from .terms import Program, Term, apply, tensor
from .types import DType, Place, Shape

_DTYPES = {
    921: DType.F16,  # in files until 2024; its neighbours mean something else since
    940: DType.BF16,
    941: DType.F16,
    950: DType.F32,
    960: DType.F64,
}
"""Element types by Mirage's number."""


class MirageAxes(Struct):
    """A map (the data axis for each grid axis, -1 for none), or the sizes of a grid."""

    x: int
    y: int
    z: int

    def map(self, grid: MirageAxes) -> list[int | None]:
        """The map in the form of `Block.load`; a grid axis of size one splits nothing."""
        pairs = ((self.x, grid.x), (self.y, grid.y), (self.z, grid.z))
        return [None if axis == -1 or size == 1 else axis for axis, size in pairs]


class MirageTensor(Struct):
    """A tensor as the file records it."""

    guid: int
    dim: list[int]
    num_dims: int
    data_type: int
    after_accum: bool | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, which the file pads with zeros."""
        if not 0 <= self.num_dims <= len(self.dim):
            raise FormatError(f"tensor {self.guid} has {self.num_dims} axes of {len(self.dim)}")
        return tuple(self.dim[: self.num_dims])

    @property
    def dtype(self) -> DType:
        dtype = _DTYPES.get(self.data_type)
        if dtype is None:
            raise FormatError(f"tensor {self.guid} has the unknown element type {self.data_type}")
        return dtype


class MirageOperator(Struct):
    """An operator of a kernel graph or of a block graph, told apart by `op_type`."""

    op_type: str
    input_tensors: list[MirageTensor]
    output_tensors: list[MirageTensor]
    bgraph: MirageBlockGraph | None = None
    dtensor: MirageTensor | None = None
    input_map: MirageAxes | None = None
    output_map: MirageAxes | None = None
    forloop_dim: int = -1
    min_val: float | None = None
    max_val: float | None = None


class MirageBlockGraph(Struct):
    """The block graph of a custom kernel."""

    grid_dim: MirageAxes
    forloop_range: int
    operators: list[MirageOperator]
    reduction_dimx: int = 64


class Checkpoint(Struct):
    """A file of Mirage's search with the graphs that it found."""

    generated_graphs: list[Raw]


T = TypeVar("T")

_SAME = frozenset(
    ["add", "div", "exp", "gelu", "matmul", "mul", "pow", "relu", "rms_norm", "silu", "sqrt",
     "square"]
)  # fmt: skip
"""Operators with one name in Mirage and in `OPERATORS`."""
_ACCUMULATORS = {
    "accum_nored": "none",
    "accum_red_ld_sum": "sum",
    "accum_red_ld_mean": "mean",
    "accum_red_ld_rms": "rms",
    "accum_redtox_ld_sum": "redtox",
}
"""The accumulator for each operator of Mirage's."""
_UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)
"""Exceptions of msgspec for a file that is no graph."""


@dataclass(frozen=True, eq=False)
class MirageGraph:
    """A saved graph, which is checked to be well-formed."""

    number: int
    inputs: tuple[Term, ...]
    """Inputs in the order of the file, which need not be that of the optimised program."""
    _nodes: Sequence[MirageOperator] = field(repr=False)

    def program(self, inputs: Sequence[Term] | None = None) -> Program:
        """The graph as a program, over `inputs` in the place of its own if given."""
        terms = self.inputs if inputs is None else tuple(inputs)
        if len(terms) != len(self.inputs):
            raise ShapeError(f"{len(terms)} inputs for a graph that has {len(self.inputs)}")
        return Program(f"graph{self.number}", terms, tuple(_read(self._nodes, terms)))


def load_mugraphs(data: bytes) -> list[MirageGraph | FormatError]:
    """The graphs of a file; in the place of one that cannot be read, the error that says why.

    Raises FormatError where the file is none of Mirage's.
    """
    try:
        document = msgspec.json.decode(data, type=list[Raw] | Checkpoint)
    except _UNREADABLE as error:
        raise FormatError(f"not a file of Mirage's graphs: {error}") from None
    graphs = document.generated_graphs if isinstance(document, Checkpoint) else document
    # A list of objects is a list of operators, that is one graph; a list of lists is many.
    if graphs and all(bytes(graph).startswith(b"{") for graph in graphs):
        return [_load(0, data)]  # one graph, not in a list of its own
    return [_load(number, graph) for number, graph in enumerate(graphs)]


def read_mugraph(graph: JsonValue) -> Program:
    """The program that one graph stands for, given as JSON's lists and dictionaries."""
    try:
        nodes = msgspec.convert(graph, type=list[MirageOperator])
    except _UNREADABLE as error:
        raise FormatError(f"not a graph of Mirage's: {error}") from None
    return _checked(0, nodes).program()


def _load(number: int, data: bytes | Raw) -> MirageGraph | FormatError:
    try:
        return _checked(number, msgspec.json.decode(data, type=list[MirageOperator]))
    except FormatError as error:
        return error
    except _UNREADABLE as error:
        return FormatError(f"not a graph of Mirage's: {error}")


def _checked(number: int, nodes: Sequence[MirageOperator]) -> MirageGraph:
    """A graph whose inputs and operators are in order."""
    recorded = [
        recorded_tensor
        for node in nodes
        if node.op_type == "kn_input_op"
        for recorded_tensor in node.output_tensors
    ]
    # Names are by position, since the file has none.
    with _at("inputs"):
        inputs = tuple(
            tensor(f"in{i}", recorded_tensor.dtype, recorded_tensor.shape)
            for i, recorded_tensor in enumerate(recorded)
        )
    graph = MirageGraph(number, inputs, nodes)
    # Reading once checks shapes, links and operators; errors belong to the file, not to a later
    # user.
    graph.program()
    return graph


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Adds to an error `where` in the file it is."""
    try:
        yield
    except UnknownOperator:
        raise
    except TensorError as error:
        raise FormatError(f"{where}: {error}") from None


class _Values:
    """Terms by the `guid` that the file gives them."""

    def __init__(self) -> None:
        self._terms: dict[int, Term] = {}
        self._unused: dict[int, Term] = {}

    def put(self, recorded: MirageTensor, term: Term) -> None:
        if recorded.guid in self._terms:
            raise FormatError(f"tensor {recorded.guid} is computed twice")
        # Each tensor is recorded at its producer and at each use; all records have to agree.
        _compare(recorded, term)
        self._terms[recorded.guid] = self._unused[recorded.guid] = term

    def get(self, recorded: MirageTensor) -> Term:
        term = self._terms.get(recorded.guid)
        if term is None:
            raise FormatError(f"tensor {recorded.guid} is used before it is computed")
        _compare(recorded, term)
        self._unused.pop(recorded.guid, None)
        return term

    def all(self, recorded: Sequence[MirageTensor]) -> list[Term]:
        return [self.get(tensor_) for tensor_ in recorded]

    def unused(self) -> list[Term]:
        return list(self._unused.values())


def _compare(recorded: MirageTensor, term: Term) -> None:
    """Raises FormatError where a term has another type than the file records."""
    type_ = (recorded.dtype, recorded.shape)
    if type_ != (term.dtype, term.shape):
        shape = ", ".join(map(str, recorded.shape))
        raise FormatError(
            f"tensor {recorded.guid} is recorded as {recorded.dtype}[{shape}]"
            f" where {term.type} is computed"
        )
    if recorded.after_accum not in (None, term.place is Place.AFTER):
        raise FormatError(f"tensor {recorded.guid} is recorded on the other side of the loop's end")


def _read(nodes: Sequence[MirageOperator], inputs: Sequence[Term]) -> list[Term]:
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
                term = _kernel_operation(node, values.all(node.input_tensors))
                values.put(_only(node.output_tensors), term)
    # Files without output operators: what nothing uses is an output.
    outputs = outputs or [term for term in values.unused() if term not in inputs]
    if not outputs:
        raise FormatError("the graph computes nothing")
    return outputs


def _kernel_operation(node: MirageOperator, operands: Sequence[Term]) -> Term:
    name = _name(node, "kn")
    if match := re.fullmatch("reduction_([0-2])", name):
        axis, shape = int(match[1]), _only(node.output_tensors).shape
        # A partial reduction: the file says only the axis, the recorded shape how many elements
        # remain.
        if axis < len(shape) and shape[axis] != 1:
            return apply("fold", *operands, axis=axis, size=shape[axis])
    return _operation(node, name, operands)


def _read_kernel(node: MirageOperator, values: _Values) -> None:
    if node.bgraph is None:
        raise FormatError("no block graph")
    values.all(node.input_tensors)
    stored = _BlockReader(node.bgraph, values).stored()
    declared = {recorded.guid: recorded for recorded in node.output_tensors}
    # Compared as sets: the order of stores in the block need not be that of the outputs.
    if {recorded.guid for recorded, _ in stored} != declared.keys():
        raise FormatError("other tensors are stored than the kernel is recorded to give")
    for recorded, term in stored:
        _compare(declared[recorded.guid], term)
        values.put(recorded, term)


class _BlockReader:
    """Converts the operators of one block graph to terms."""

    def __init__(self, graph: MirageBlockGraph, device: _Values) -> None:
        grid = graph.grid_dim
        self._graph = graph
        self._device = device
        self._block = Block((grid.x, grid.y, grid.z), graph.forloop_range)
        self._tiles = _Values()
        self._stores: list[tuple[MirageTensor, Term, list[int | None]]] = []

    def stored(self) -> list[tuple[MirageTensor, Term]]:
        for place, node in enumerate(self._graph.operators):
            with _at(f"block operator {place}, {node.op_type}"):
                if node.op_type == "tb_output_op":
                    self._store(node)
                else:
                    self._tiles.put(_only(node.output_tensors), self._tile(node))
        terms = self._block.results(*((tile, maps) for _, tile, maps in self._stores))
        return [(store[0], term) for store, term in zip(self._stores, terms, strict=True)]

    def _tile(self, node: MirageOperator) -> Term:
        if node.op_type == "tb_input_op":
            return self._load(node)
        name = _name(node, "tb")
        operands = self._tiles.all(node.input_tensors)
        columns = self._graph.reduction_dimx
        kind = _ACCUMULATORS.get(name.removeprefix("forloop_"))
        if kind is not None:
            return self._block.accumulate(_only(operands), kind, columns)
        if match := re.fullmatch("reduction_([0-2])_to_dimx", name):
            return apply("fold", *operands, axis=int(match[1]), size=columns)
        if match := re.fullmatch("concat_([0-2])", name):
            return apply("concatenate", *operands, axis=int(match[1]))
        if name == "concat_then_matmul":
            return _concat_then_matmul(operands)
        return _operation(node, name, operands)

    def _load(self, node: MirageOperator) -> Term:
        if node.dtensor is None or node.input_map is None:
            raise FormatError("no dtensor or no input_map")
        source = self._device.get(node.dtensor)
        maps = node.input_map.map(self._graph.grid_dim)
        # A loop that runs once splits nothing, whatever axis the file names.
        whole = node.forloop_dim == -1 or self._graph.forloop_range == 1
        return self._block.load(source, maps, None if whole else node.forloop_dim)

    def _store(self, node: MirageOperator) -> None:
        if node.dtensor is None or node.output_map is None:
            raise FormatError("no dtensor or no output_map")
        recorded = _only(node.input_tensors)
        tile = self._tiles.get(recorded)
        # The oldest files: no accumulator is recorded, storing implies the sum over the loop.
        if tile.place is Place.LOOP and recorded.after_accum is None:
            tile = self._block.accumulate(tile)
        self._stores.append((node.dtensor, tile, node.output_map.map(self._graph.grid_dim)))


def _operation(node: MirageOperator, name: str, operands: Sequence[Term]) -> Term:
    """An operator that kernel graphs and block graphs have in common."""
    if name in _SAME:
        return apply(name, *operands)
    if match := re.fullmatch("reduction_([0-2])", name):
        return apply("sum", *operands, axes=(int(match[1]),), keep=True)
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


def _name(node: MirageOperator, level: str) -> str:
    """The part of `op_type` between `kn_` or `tb_` and `_op`."""
    match = re.fullmatch(f"{level}_(.*)_op", node.op_type)
    if match is None:
        raise UnknownOperator(node.op_type)
    return match[1]


def _only(items: Sequence[T]) -> T:
    if len(items) != 1:
        raise FormatError(f"{len(items)} tensors instead of one")
    return items[0]


Pattern: TypeAlias = "Sequence[str | Dim]"
"""What an input's axes have to be: sizes, or labels that stand for one size each."""


@dataclass(frozen=True)
class InputPairing:
    """A program, and a graph over the inputs of that program."""

    reference: Program
    graph: Program
    order: tuple[int, ...]
    """Gives for each input of `reference` its position among the inputs of the file."""


def pairs(graph: MirageGraph, reference: Program | Builtin) -> Iterator[InputPairing]:
    """Every pairing of the graph's inputs with those of `reference` that types allow.

    A built-in program takes the sizes that the graph has.
    """
    pairings = (
        _with_sizes(graph, reference)
        if isinstance(reference, Builtin)
        else _as_it_is(graph, reference)
    )
    for pair in pairings:
        expected = [term.type for term in pair.reference.outputs]
        if expected == [term.type for term in pair.graph.outputs]:
            yield pair


def _with_sizes(graph: MirageGraph, reference: Builtin) -> Iterator[InputPairing]:
    dtypes = {input_.dtype for input_ in graph.inputs}
    if len(dtypes) != 1:
        return
    (dtype,) = dtypes
    for order, sizes in _assignments(_shapes(graph), list(reference.inputs.values()), {}):
        try:
            program = reference.program(dtype, **sizes)
        except ShapeError:
            continue
        yield _pair(graph, program, order)


def _as_it_is(graph: MirageGraph, reference: Program) -> Iterator[InputPairing]:
    for order, _ in _assignments(_shapes(graph), [input_.shape for input_ in reference.inputs], {}):
        dtypes = [graph.inputs[place].dtype for place in order]
        if dtypes == [input_.dtype for input_ in reference.inputs]:
            yield _pair(graph, reference, order)


def _pair(graph: MirageGraph, reference: Program, order: Sequence[int]) -> InputPairing:
    in_file_order = sorted(zip(order, reference.inputs, strict=True), key=lambda pair: pair[0])
    program = graph.program([term for _, term in in_file_order])
    return InputPairing(
        reference, Program(program.name, reference.inputs, program.outputs), tuple(order)
    )


def _shapes(graph: MirageGraph) -> dict[int, Shape]:
    return {place: input_.shape for place, input_ in enumerate(graph.inputs)}


def _assignments(
    shapes: dict[int, Shape], patterns: Sequence[Pattern], sizes: dict[str, Dim]
) -> Iterator[tuple[list[int], dict[str, Dim]]]:
    """Finds a shape for each pattern, and the sizes that the labels get, by backtracking."""
    if not patterns:
        if not shapes:
            yield [], sizes
        return
    for place, shape in shapes.items():
        bound = _unify(shape, patterns[0], sizes)
        if bound is not None:
            unassigned = {index: left for index, left in shapes.items() if index != place}
            for order, assignment in _assignments(unassigned, patterns[1:], bound):
                yield [place, *order], assignment


def _unify(shape: Shape, pattern: Pattern, sizes: dict[str, Dim]) -> dict[str, Dim] | None:
    """`sizes` extended so that `pattern` matches `shape`; None where it does not."""
    if len(shape) != len(pattern):
        return None
    # A copy: a failed match must not leave sizes behind for the next try.
    bound = dict(sizes)
    for size, part in zip(shape, pattern, strict=True):
        expected = bound.setdefault(part, size) if isinstance(part, str) else part
        if expected != size:
            return None
    return bound
