"""Programs that a search stands for, some of them at random: kernels, block graphs, numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

from testkit.superoptimizer.membership import Members

from aiosearch.superoptimizer.build.mugraph import Builder, BuiltKernels
from aiosearch.superoptimizer.enumeration.block_graphs import DerivedBlockGraph
from aiosearch.superoptimizer.enumeration.kernel_graphs import SkeletonKernel
from aiosearch.tensor import Program, ShapeError

_TRIES = 8
_GRAPHS = 500
"""Block graphs of a kernel that one is chosen of."""


def samples(members: Members, random: Random, count: int) -> Iterator[Program]:
    """So many programs, of other kernels each as long as there are; all of them may not fit."""
    builder = Builder(members.fusion.tables)
    found = sorted(members.solutions, key=lambda one: str(one.kernels))
    chosen = random.sample(found, min(count, len(found)))
    for one in [*chosen, *random.choices(found, k=count - len(chosen))]:
        graphs = tuple(
            None if kernel.step >= 0 else random.choice(_graphs(members, kernel))
            for kernel in one.kernels
        )
        program = _filled(builder, BuiltKernels(one.kernels, graphs), random)
        if program is not None:
            yield program


def _graphs(members: Members, kernel: SkeletonKernel) -> list[DerivedBlockGraph]:
    return list(islice(members.fusion.skeletons.graphs(kernel), _GRAPHS))


def _filled(builder: Builder, built: BuiltKernels, random: Random) -> Program | None:
    """The program with random numbers, if some of a few tries fit."""
    extents = builder.extents(built)
    for _ in range(_TRIES):
        sizes = {name: random.choice(_divisors(extent)) for name, extent in extents.items()}
        try:
            return builder.build(built, sizes)
        except ShapeError:
            continue
    return None


def _divisors(extent: int) -> list[int]:
    return [size for size in range(1, extent + 1) if extent % size == 0]
