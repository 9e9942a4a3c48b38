"""The ranking of kernel graphs as programs with sizes, the best predicted first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from ...devices import Device
from ...tensor.errors import ShapeError
from ..build.mugraph import Builder, BuiltKernels
from ..enumeration.block_graphs import DerivedBlockGraph
from ..enumeration.kernel_graphs import SkeletonKernel, Skeletons
from ..enumeration.problem import Found
from ..progress import ShouldContinue, always_continue
from .sizes import Filling, fill

LOOKED_AT = 2_000
"""Block graphs of a kernel that are looked at, of which so many are tried:"""
TRIED = 4
ENOUGH = 40
"""Of these no longer ones are looked for."""


@dataclass(frozen=True)
class Ranked:
    """A program with the numbers that should suit a device best."""

    built: BuiltKernels
    filling: Filling
    programs: int
    """How many programs have the same kernels."""


class Ranking:
    """Programs of kernel graphs, by what they should take on a device."""

    def __init__(self, skeletons: Skeletons, device: Device) -> None:
        self._skeletons = skeletons
        self._builder = Builder(skeletons.tables)
        self._device = device
        self._shortest: dict[SkeletonKernel, list[DerivedBlockGraph]] = {}

    def best(
        self, found: Sequence[Found], most: int, going: ShouldContinue = always_continue
    ) -> list[Ranked]:
        """The best program of each of the most promising kernel graphs, best first.

        All are looked at with the shortest block graphs, and the best of them with more.
        """
        ordered = sorted(found, key=self._least)
        ranked: list[tuple[Ranked, Found]] = []
        for number, one in enumerate(ordered, 1):
            if not going(f"ranking {number} of {len(ordered)} kernel graphs"):
                break
            if len(ranked) >= most and self._least(one) > _seconds(ranked[most - 1][0]):
                break
            best = self._quickly(one)
            if best is not None:
                ranked = sorted([*ranked, (best, one)], key=lambda pair: rank_of(pair[0]))
        return sorted(self._refined(ranked[:most], going), key=rank_of)

    def _refined(
        self, ranked: Sequence[tuple[Ranked, Found]], going: ShouldContinue
    ) -> list[Ranked]:
        """The same with the best of more block graphs, as long as there is time for them."""
        refined: list[Ranked] = []
        for number, (quick, one) in enumerate(ranked, 1):
            if not going(f"trying more block graphs for {number} of {len(ranked)}"):
                return [*refined, *(quick for quick, _ in ranked[number - 1 :])]
            refined.append(self._of(one) or quick)
        return refined

    def _least(self, found: Found) -> float:
        """No program with these kernels should take less."""
        device = self._device
        moved = found.least_bytes / device.bytes_per_second
        return moved + len(found.kernels) * device.launch_seconds

    def _quickly(self, found: Found) -> Ranked | None:
        """With the shortest block graphs."""
        ways = [self._ways(kernel) for kernel in found.kernels]
        if not all(ways):
            return None
        built = BuiltKernels(found.kernels, tuple(way[0] for way in ways))
        filling = filled(self._builder, built, self._device)
        return self._of(found) if filling is None else Ranked(built, filling, found.programs)

    def _of(self, found: Found) -> Ranked | None:
        """One kernel after the other gets the block graph that is best beside the others'."""
        ways = [self._ways(kernel) for kernel in found.kernels]
        if not all(ways):
            return None
        chosen = [way[0] for way in ways]
        best: Filling | None = None
        for place, way in enumerate(ways):
            for graph in way if len(way) > 1 or best is None else ():
                other = [*chosen[:place], graph, *chosen[place + 1 :]]
                filling = filled(
                    self._builder, BuiltKernels(found.kernels, tuple(other)), self._device
                )
                if filling is not None and (
                    best is None or filling.prediction.rank < best.prediction.rank
                ):
                    best, chosen = filling, other
        if best is None:
            return None
        return Ranked(BuiltKernels(found.kernels, tuple(chosen)), best, found.programs)

    def _ways(self, kernel: SkeletonKernel) -> list[DerivedBlockGraph | None]:
        """The shortest block graphs of a kernel, with a loop and without."""
        if kernel.step >= 0:
            return [None]
        found = self._shortest.get(kernel)
        if found is None:
            graphs = self._few(kernel)
            looped = [graph for graph in graphs if self._loops(graph)]
            still = [graph for graph in graphs if not self._loops(graph)]
            found = self._shortest[kernel] = [*looped[:TRIED], *still[:TRIED]]
        return list(found)

    def _few(self, kernel: SkeletonKernel) -> list[DerivedBlockGraph]:
        """The shortest block graphs of a kernel, the more operators the more of them."""
        graphs: list[DerivedBlockGraph] = []
        for most in range(1, self._skeletons.tables.space.block_operators + 1):
            graphs = list(islice(self._skeletons.graphs(kernel, most), LOOKED_AT))
            if len(graphs) >= ENOUGH:
                break
        return sorted(graphs, key=lambda graph: (len(graph.steps), graph.outputs))

    def _loops(self, graph: DerivedBlockGraph) -> bool:
        return any(self._skeletons.tables.classes[number].loop for number, _ in graph.steps)


def filled(builder: Builder, built: BuiltKernels, device: Device) -> Filling | None:
    """A program with the numbers that suit a device best; None where it does not fit."""
    extents = builder.extents(built)
    try:
        fillings = fill(lambda sizes: builder.build(built, sizes), extents, device)
    except ShapeError:
        return None
    return fillings[0] if fillings else None


def rank_of(ranked: Ranked) -> tuple[float, float]:
    """What is better comes first."""
    return ranked.filling.prediction.rank


def _seconds(ranked: Ranked) -> float:
    return ranked.filling.prediction.seconds
