"""Whether a µgraph is among what the superoptimizer finds, in canonical form.

Each tensor and tile of the program becomes a class of the tables, each operator a step between
classes. A value that is computed twice is computed once, grids are as fine as they can be, and
partial sums lie where the tables put them. The kernels are then looked up among the leaves of the
search tree, and each block graph among those of its kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property

from testkit.superoptimizer.index_layout import OutsideError
from testkit.superoptimizer.readings import Made, Reading
from testkit.superoptimizer.table_lookup import Lookup, MissedError, cut, key, spelled

from aiosearch.superoptimizer.enumeration.block_graphs import DerivedBlockGraph
from aiosearch.superoptimizer.enumeration.kernel_graphs import Skeleton, SkeletonKernel
from aiosearch.superoptimizer.enumeration.problem import Found, Fusion
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import Program
from aiosearch.tensor.files import to_json


class Answer(Enum):
    """What became of a program."""

    FOUND = "found"
    OUTSIDE = "outside"
    """It is not in the declared space."""
    MISSED = "missed"


@dataclass(frozen=True)
class Membership:
    answer: Answer
    reason: str = ""


class Members:
    """The programs that a search of a reference finds."""

    def __init__(self, reference: Program, space: Space) -> None:
        self.fusion = Fusion(to_json(reference), space)
        self._lookup = Lookup(self.fusion.tables)
        self._graphs_of = cache(self._graphs)

    @cached_property
    def solutions(self) -> list[Found]:
        """All kernel graphs that the search comes to."""
        found: list[Found] = []
        root = self.fusion.root()
        stack, seen = [root], {root}
        while stack:
            node: Skeleton = stack.pop()
            fresh = set(self.fusion.expand(node)) - seen
            seen |= fresh
            stack.extend(fresh)
            found.extend(self.fusion.solutions(node))
        return found

    @cached_property
    def _leaves(self) -> set[frozenset[SkeletonKernel]]:
        return {frozenset(one.kernels) for one in self.solutions}

    def judge(self, program: Program) -> Membership:
        """Looks a program up that has the reference's inputs and equals it."""
        reading = Reading(self._lookup, self.fusion.skeletons)
        try:
            outputs = reading.read(program)
            self._look_up(self._kernels(reading.made, outputs))
        except OutsideError as outside:
            return Membership(Answer.OUTSIDE, str(outside))
        except MissedError as missed:
            return Membership(Answer.MISSED, str(missed))
        return Membership(Answer.FOUND, "with partial sums elsewhere" if reading.relaid else "")

    def _look_up(self, kernels: Mapping[SkeletonKernel, DerivedBlockGraph | None]) -> None:
        space = self.fusion.space
        custom = [graph for graph in kernels.values() if graph is not None]
        if len(kernels) > space.kernels:
            raise OutsideError(f"more than {space.kernels} kernels")
        if any(len(graph.steps) > space.block_operators for graph in custom):
            raise OutsideError(f"more than {space.block_operators} operators of a block")
        if any(len(graph.loads) > space.block_inputs for graph in custom):
            raise OutsideError(f"more than {space.block_inputs} inputs of a block")
        if frozenset(kernels) not in self._leaves:
            raise MissedError(f"the kernels {[*kernels]}")
        for kernel, graph in kernels.items():
            if graph is not None and spelled(graph) not in self._graphs_of(kernel):
                raise MissedError(f"the block graph {graph}")

    def _graphs(self, kernel: SkeletonKernel) -> set[object]:
        return {spelled(graph) for graph in self.fusion.skeletons.graphs(kernel)}

    def _kernels(
        self, made: Mapping[int, Made], outputs: Sequence[int]
    ) -> dict[SkeletonKernel, DerivedBlockGraph | None]:
        """What the outputs need: each kernel, with its block graph if it has one."""
        found: dict[SkeletonKernel, DerivedBlockGraph | None] = {}
        together: dict[DerivedBlockGraph, list[int]] = {}
        for tensor in self._needed(made, outputs):
            step, graph = made[tensor].step, made[tensor].graph
            if graph is None:
                ways = [key(way) for way in self.fusion.tables.steps[tensor]]
                loads = tuple(sorted(set(step.operands)))
                found[SkeletonKernel((tensor,), loads, ways.index(key(step)))] = None
            else:
                together.setdefault(graph, []).append(tensor)
        for whole, tensors in together.items():
            graph = cut(whole, [made[tensor].step.operands[0] for tensor in tensors])
            found[SkeletonKernel(tuple(tensors), graph.loads)] = graph
        return found

    def _needed(self, made: Mapping[int, Made], outputs: Sequence[int]) -> list[int]:
        """All tensors that have to be computed, in the order of their classes."""
        stack, found = [*outputs], set(self.fusion.tables.available)
        while stack:
            tensor = stack.pop()
            if tensor not in found:
                found.add(tensor)
                step, graph = made[tensor].step, made[tensor].graph
                stack += step.operands if graph is None else graph.loads
        return sorted(found - self.fusion.tables.available)
