"""Programs that a search has to find: looked for among all that were found, and verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import islice, product
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from aiosearch import solve
from aiosearch.devices import Device
from aiosearch.equivalence import verify
from aiosearch.superoptimizer.algebra.normal_form import BITS, GRID
from aiosearch.superoptimizer.algebra.program_reader import read_with
from aiosearch.superoptimizer.build.mugraph import BuiltKernels
from aiosearch.superoptimizer.cost.sizes import fill
from aiosearch.superoptimizer.enumeration.block_graphs import DerivedBlockGraph
from aiosearch.superoptimizer.enumeration.problem import Found, Fusion
from aiosearch.tensor import Program, Term, apply
from aiosearch.tensor.text import write

TRIED = 50
"""Of programs that are wanted, so many are filled in and verified, until one is accepted."""


class Programs:
    """All that a search finds, read off the tables."""

    def __init__(self, problem: Fusion) -> None:
        self.problem = problem
        self.tables = problem.tables

    @cached_property
    def found(self) -> list[Found]:
        """Every kernel graph."""
        return solve(self.problem, workers=0, cache=None).solutions

    def built(self, found: Found) -> Iterator[BuiltKernels]:
        """Every program with these kernels."""
        ways = [
            [None] if kernel.step >= 0 else list(self.problem.skeletons.graphs(kernel))
            for kernel in found.kernels
        ]
        for graphs in product(*ways):
            yield BuiltKernels(found.kernels, graphs)

    def form(self, value: Callable[..., Term]) -> int:
        """The form of a value that is computed from inputs, which are given by their names."""
        inputs = self.tables.reference.program.inputs
        named = {one.parameter("name").lower(): one for one in inputs}
        (found,) = read_with(Program("value", inputs, (value(**named),)), self.tables.reference)
        return found.form

    def forms(self, built: BuiltKernels) -> Iterator[int]:
        """The forms of all that its blocks compute."""
        for graph in built.graphs:
            for number, _ in graph.steps if graph else ():
                yield self.tables.classes[number].form

    def splits(self, built: BuiltKernels, place: int, label: str) -> bool:
        """Whether the grid of a kernel splits an index."""
        graph = built.graphs[place]
        part = GRID << BITS * self.tables.reference.labels.index(label)
        return graph is not None and bool(self.tables.classes[graph.outputs[0]].grid & part)

    def loops(self, built: BuiltKernels, place: int) -> bool:
        """Whether a kernel has a loop."""
        graph = built.graphs[place]
        return graph is not None and any(self.tables.classes[at].loop for at, _ in graph.steps)

    def made(self, found: Found) -> set[int]:
        """The forms of what its kernels store."""
        tensors = (tensor for kernel in found.kernels for tensor in kernel.tensors)
        return {self.tables.classes[tensor].form for tensor in tensors}


Those: TypeAlias = Callable[[Programs, Found], Iterator[BuiltKernels]]
"""Of the programs with some kernels, those that are meant."""


def in_one_kernel(*operators: str) -> Those:
    """Everything in one kernel, which has a loop and is made of these operators."""

    def those(programs: Programs, found: Found) -> Iterator[BuiltKernels]:
        if len(found.kernels) == 1:
            for built in programs.built(found):
                if programs.loops(built, 0) and spelled(built.graphs[0]) == sorted(operators):
                    yield built

    return those


def weights_added_first(programs: Programs, found: Found) -> Iterator[BuiltKernels]:
    """X (W + A B), wherever the weights are added."""
    wanted = programs.form(lambda x, w, a, b: w + a @ b)
    between = wanted in programs.made(found)
    for built in programs.built(found):
        if between or wanted in programs.forms(built):
            yield built


def split_over_keys(*operators: str) -> Those:
    """Two kernels: one of these operators that sums over a part of the keys, one that adds up."""

    def those(programs: Programs, found: Found) -> Iterator[BuiltKernels]:
        inputs = tuple(sorted(programs.tables.inputs))
        if len(found.kernels) == 2 and found.kernels[0].loads == inputs:
            for built in programs.built(found):
                first = spelled(built.graphs[0]) == sorted(operators)
                if first and built.graphs[1] and programs.splits(built, 0, "key"):
                    yield built

    return those


def norms_first(programs: Programs, found: Found) -> Iterator[BuiltKernels]:
    """The whole attention in one kernel, which loads what is normalised already."""
    classes = programs.tables.classes
    loaded = (
        programs.form(lambda q, k, v: apply("rms_norm", q)),
        programs.form(lambda q, k, v: k),
        programs.form(lambda q, k, v: apply("rms_norm", v)),
    )
    if sorted(classes[load].form for load in found.kernels[-1].loads) == sorted(loaded):
        for built in programs.built(found):
            if spelled(built.graphs[-1]) == sorted((*ATTENTION, "div")):
                yield built


def spelled(graph: DerivedBlockGraph | None) -> list[str]:
    """The operators of a block, sorted."""
    return sorted(
        f"{step.operator}({step.detail})" if step.operator == "accumulate" else step.operator
        for _, step in (graph.steps if graph else ())
    )


SUM, ROWS, RMS = "accumulate(none)", "accumulate(sum)", "accumulate(rms)"
ATTENTION = (*("load",) * 3, "matmul", "exp", "matmul", SUM, ROWS)

WANTED: Mapping[str, Mapping[str, Those]] = MappingProxyType(
    {
        "rms_norm": {
            "one kernel that divides behind its loop": in_one_kernel(
                "load", "load", "matmul", SUM, RMS, "div"
            )
        },
        "gated_mlp": {
            "one kernel of two products": in_one_kernel(
                *("load",) * 3, "matmul", "matmul", SUM, SUM, "silu", "mul"
            )
        },
        "lora": {
            "X (W + A B)": weights_added_first,
            "one kernel of three products": in_one_kernel(
                *("load",) * 4, *("matmul",) * 3, "add", SUM
            ),
        },
        "gqa": {"split over the keys, two kernels": split_over_keys(*ATTENTION)},
        "qk_norm_v": {"norms, then attention in one kernel": norms_first},
        "qk_norm_v fused": {
            "split over the keys, two kernels": split_over_keys(*ATTENTION, "rms_norm", "rms_norm")
        },
    }
)
"""What has to be there, by the name of a search."""


class Sighting(Struct, frozen=True):
    """A program that was wanted."""

    what: str
    programs: int
    """How many are such."""
    evidence: str
    """What was verified of one of them; nothing where none was found or accepted."""
    text: str
    """That one, with numbers."""


def sighted(programs: Programs, what: str, those: Those, device: Device) -> Sighting:
    """Looks for a program, and verifies the shortest that can be."""
    every = [built for found in programs.found for built in those(programs, found)]
    for built in islice(sorted(every, key=_length), TRIED):
        program = _filled(programs, built, device)
        if program is not None:
            verdict = verify(programs.tables.reference.program, program, floats=False)
            if verdict.status.accepted:
                return Sighting(what, len(every), str(verdict.status), write(program))
    return Sighting(what, len(every), "", "")


def _length(built: BuiltKernels) -> int:
    return sum(len(graph.steps) for graph in built.graphs if graph)


def _filled(programs: Programs, built: BuiltKernels, device: Device) -> Program | None:
    builder = programs.problem.builder
    fillings = fill(lambda sizes: builder.build(built, sizes), builder.extents(built), device)
    return fillings[0].program if fillings else None
