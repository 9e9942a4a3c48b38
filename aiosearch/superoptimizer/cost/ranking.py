"""The ranking of kernel graphs as programs with sizes, the best predicted first.

Problem: a space has more block graphs than can be filled with sizes. A search for completeness
counts them all; this module chooses those that are looked at.

Worked example, with `most` = 10: kernel graphs are taken in the order of the bytes they must move.
Each is priced with the shortest block graph of each kernel. When ten are ranked and the next kernel
graph must move more than the tenth takes, the others are left out. The ten get up to `TRIED`
looping and `TRIED` straight block graphs per kernel, one kernel after the other.

Invariant: no kernel graph is left out whose bound is below the last of the best; among the block
graphs of one kernel graph the choice is heuristic.

Cost: one filling for each kernel graph that is looked at, and for the best ones up to twice `TRIED`
for each kernel; a filling evaluates all choices of sizes.

See docs/why/superoptimizer.md, "Numbers, best first".
"""

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
"""Block graphs of a kernel that are listed before the shortest are chosen."""
TRIED = 4
"""How many of the listed block graphs with a loop, and how many without, are filled with sizes."""
ENOUGH = 40
"""Once so many block graphs are listed, no longer ones are."""


@dataclass(frozen=True)
class Ranked:
    """A program with the sizes that should suit a device best."""

    built: BuiltKernels
    filling: Filling
    programs: int
    """How many programs have the same kernel graph."""


class Ranking:
    """Programs of kernel graphs, by what they should take on a device."""

    def __init__(self, skeletons: Skeletons, device: Device) -> None:
        self._skeletons = skeletons
        self._builder = Builder(skeletons.tables)
        self._device = device
        self._shortest: dict[SkeletonKernel, list[DerivedBlockGraph]] = {}

    def best(
        self, graphs: Sequence[Found], most: int, going: ShouldContinue = always_continue
    ) -> list[Ranked]:
        """The best program of each of the most promising kernel graphs, best first, at most `most`.

        All are looked at with the shortest block graphs, and the best of them with more.
        """
        ordered = sorted(graphs, key=self._least)
        ranked: list[tuple[Ranked, Found]] = []
        for number, graph in enumerate(ordered, 1):
            if not going(f"ranking {number} of {len(ordered)} kernel graphs"):
                break
            # `ordered` is sorted by this bound, so no later kernel graph can be among the best
            # either.
            if len(ranked) >= most and self._least(graph) > _seconds(ranked[most - 1][0]):
                break
            best = self._estimated(graph)
            if best is not None:
                ranked = sorted([*ranked, (best, graph)], key=lambda pair: rank_of(pair[0]))
        return sorted(self._refined(ranked[:most], going), key=rank_of)

    def _refined(
        self, ranked: Sequence[tuple[Ranked, Found]], going: ShouldContinue
    ) -> list[Ranked]:
        """The programs of `ranked` with the best of more block graphs, as long as `going` has time
        for them.
        """
        refined: list[Ranked] = []
        for number, (quick, graph) in enumerate(ranked, 1):
            if not going(f"trying more block graphs for {number} of {len(ranked)}"):
                return [*refined, *(quick for quick, _ in ranked[number - 1 :])]
            refined.append(self._refined_graph(graph) or quick)
        return refined

    def _least(self, graph: Found) -> float:
        """A lower bound of the seconds of every program with these kernels."""
        device = self._device
        moved = graph.least_bytes / device.bytes_per_second
        return moved + len(graph.kernels) * device.launch_seconds

    def _estimated(self, graph: Found) -> Ranked | None:
        """The program with the shortest block graphs; with others where that does not fit the
        device.
        """
        ways = [self._block_graphs(kernel) for kernel in graph.kernels]
        if not all(ways):
            return None
        built = BuiltKernels(graph.kernels, tuple(way[0] for way in ways))
        filling = filled(self._builder, built, self._device)
        return (
            self._refined_graph(graph)
            if filling is None
            else Ranked(built, filling, graph.programs)
        )

    def _refined_graph(self, kernel_graph: Found) -> Ranked | None:
        """One kernel after the other gets the block graph that is best beside those of the
        others.
        """
        choices = [self._block_graphs(kernel) for kernel in kernel_graph.kernels]
        if not all(choices):
            return None
        chosen = [options[0] for options in choices]
        best: Filling | None = None
        for place, options in enumerate(choices):
            # A kernel with one block graph has nothing to choose; it is filled once so that there
            # is a best.
            for graph in options if len(options) > 1 or best is None else ():
                candidate = [*chosen[:place], graph, *chosen[place + 1 :]]
                filling = filled(
                    self._builder,
                    BuiltKernels(kernel_graph.kernels, tuple(candidate)),
                    self._device,
                )
                if filling is not None and (
                    best is None or filling.prediction.rank < best.prediction.rank
                ):
                    best, chosen = filling, candidate
        if best is None:
            return None
        return Ranked(
            BuiltKernels(kernel_graph.kernels, tuple(chosen)), best, kernel_graph.programs
        )

    def _block_graphs(self, kernel: SkeletonKernel) -> list[DerivedBlockGraph | None]:
        """The shortest block graphs of a kernel, with a loop and without; `[None]` for an
        operator.
        """
        if kernel.step >= 0:
            return [None]
        # Kernel graphs share kernels, so their block graphs are listed once for all.
        shortest = self._shortest.get(kernel)
        if shortest is None:
            graphs = self._listed_graphs(kernel)
            # Both kinds are tried: which of them is better depends on the sizes and on the device.
            looped = [graph for graph in graphs if self._loops(graph)]
            still = [graph for graph in graphs if not self._loops(graph)]
            shortest = self._shortest[kernel] = [*looped[:TRIED], *still[:TRIED]]
        return list(shortest)

    def _listed_graphs(self, kernel: SkeletonKernel) -> list[DerivedBlockGraph]:
        """The shortest block graphs of a kernel, at least `ENOUGH` where there are as many."""
        graphs: list[DerivedBlockGraph] = []
        # By rising length: listing with the full limit would meet long graphs first, of which there
        # may be millions.
        for most in range(1, self._skeletons.tables.space.block_operators + 1):
            graphs = list(islice(self._skeletons.graphs(kernel, most), LOOKED_AT))
            if len(graphs) >= ENOUGH:
                break
        return sorted(graphs, key=lambda graph: (len(graph.steps), graph.outputs))

    def _loops(self, graph: DerivedBlockGraph) -> bool:
        return any(self._skeletons.tables.classes[number].loop for number, _ in graph.steps)


def filled(builder: Builder, built: BuiltKernels, device: Device) -> Filling | None:
    """A program with the sizes that suit a device best; None where it does not fit."""
    extents = builder.extents(built)
    try:
        fillings = fill(lambda sizes: builder.build(built, sizes), extents, device)
    # The sizes of some label may not divide as the kernels need it.
    except ShapeError:
        return None
    return fillings[0] if fillings else None


def rank_of(ranked: Ranked) -> tuple[float, float]:
    """The key by which `Ranked` programs are ordered, see `rank`."""
    return ranked.filling.prediction.rank


def _seconds(ranked: Ranked) -> float:
    return ranked.filling.prediction.seconds
