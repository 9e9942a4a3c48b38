"""From kernel graphs to programs with numbers, the best predicted first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice

from ..tensor.errors import ShapeError
from .blocks import BlockGraph
from .building import Builder, Built
from .devices import Device
from .filling import Filling, fill
from .going import Going, always
from .problem import Found
from .skeletons import Kernel, Skeletons

LOOKED_AT = 2_000
"""Block graphs of a kernel that are looked at, of which so many are tried:"""
TRIED = 6


@dataclass(frozen=True)
class Ranked:
    """A program with the numbers that should suit a device best."""

    built: Built
    filling: Filling
    programs: int
    """How many programs have the same kernels."""


class Ranking:
    """Programs of kernel graphs, by what they should take on a device."""

    def __init__(self, skeletons: Skeletons, device: Device) -> None:
        self._skeletons = skeletons
        self._builder = Builder(skeletons.tables)
        self._device = device

    def best(self, found: Sequence[Found], most: int, going: Going = always) -> list[Ranked]:
        """The best program of each of the most promising kernel graphs, best first."""
        ordered = sorted(found, key=self._least)
        ranked: list[Ranked] = []
        for number, one in enumerate(ordered, 1):
            if not going(f"ranking {number} of {len(ordered)} kernel graphs"):
                break
            worst = ranked[most - 1].filling.prediction.seconds if len(ranked) >= most else None
            if worst is not None and self._least(one) > worst:
                break
            best = self._of(one)
            if best is not None:
                ranked = sorted([*ranked, best], key=lambda own: own.filling.prediction.rank)
        return ranked[:most]

    def _least(self, found: Found) -> float:
        """No program with these kernels should take less."""
        device = self._device
        moved = found.least_bytes / device.bytes_per_second
        return moved + len(found.kernels) * device.launch_seconds

    def _of(self, found: Found) -> Ranked | None:
        """One kernel after the other gets the block graph that is best beside the others'."""
        ways = [self._ways(kernel) for kernel in found.kernels]
        if not all(ways):
            return None
        chosen = [way[0] for way in ways]
        best: Filling | None = None
        for place, way in enumerate(ways):
            for graph in way if len(way) > 1 or best is None else ():
                tried = [*chosen[:place], graph, *chosen[place + 1 :]]
                filling = self._filled(Built(found.kernels, tuple(tried)))
                if filling is not None and (
                    best is None or filling.prediction.rank < best.prediction.rank
                ):
                    best, chosen = filling, tried
        if best is None:
            return None
        return Ranked(Built(found.kernels, tuple(chosen)), best, found.programs)

    def _filled(self, built: Built) -> Filling | None:
        extents = self._builder.extents(built)
        try:
            fillings = fill(lambda sizes: self._builder.build(built, sizes), extents, self._device)
        except ShapeError:
            return None
        return fillings[0] if fillings else None

    def _ways(self, kernel: Kernel) -> list[BlockGraph | None]:
        if kernel.step >= 0:
            return [None]
        graphs = list(islice(self._skeletons.graphs(kernel), LOOKED_AT))
        looped = [graph for graph in graphs if self._loops(graph)]
        still = [graph for graph in graphs if not self._loops(graph)]
        return [*self._shortest(looped), *self._shortest(still)]

    def _shortest(self, graphs: Sequence[BlockGraph]) -> Iterator[BlockGraph]:
        yield from nsmallest(TRIED, graphs, key=lambda graph: (len(graph.steps), graph.outputs))

    def _loops(self, graph: BlockGraph) -> bool:
        return any(self._skeletons.tables.classes[number].loop for number, _ in graph.steps)
