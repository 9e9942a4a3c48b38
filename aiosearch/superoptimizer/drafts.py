"""Programs of kernels as they are put together: which kernels there are, then what is in each."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from .blocks import Steps
from .building import Built
from .skeletons import Kernel, Skeleton, Skeletons, in_order


class Choice(Struct, frozen=True, array_like=True):
    """A block graph as far as it is chosen, from its end."""

    outputs: tuple[int, ...]
    """The tiles that are stored."""
    steps: Steps = ()


class Draft(Struct, frozen=True, array_like=True):
    """Kernels, tensors that have none yet, and block graphs of the first of those that have one."""

    kernels: tuple[Kernel, ...]
    """Where no tensor lacks one, in the order in which they run."""
    needed: tuple[int, ...] = ()
    graphs: tuple[Choice, ...] = ()


class Drafts:
    """Goes from a draft to those that have one choice more; each leads to a program."""

    def __init__(self, skeletons: Skeletons) -> None:
        self._skeletons = skeletons
        self._blocks = skeletons.blocks

    def begun(self, node: Skeleton) -> Draft:
        if node.needed:
            return Draft(node.kernels, node.needed)
        return Draft(in_order(node.kernels, self._skeletons.tables.given))

    def expand(self, draft: Draft) -> Iterator[Draft]:
        """Gives a tensor its kernel, a kernel its outputs' tiles, or a tile its operands."""
        if draft.needed:
            node = Skeleton(draft.kernels, draft.needed)
            yield from map(self.begun, self._skeletons.expand(node))
            return
        custom = [kernel for kernel in draft.kernels if kernel.step < 0]
        if draft.graphs:
            *before, last = draft.graphs
            more = list(self._longer(last, custom[len(before)]))
            if more:
                yield from (Draft(draft.kernels, (), (*before, one)) for one in more)
                return
        for kernel in custom[len(draft.graphs) :][:1]:
            for tiles in self._skeletons.tilings(kernel):
                yield Draft(draft.kernels, (), (*draft.graphs, Choice(tiles)))

    def _longer(self, choice: Choice, kernel: Kernel) -> Iterator[Choice]:
        for step in self._skeletons.ahead(kernel, choice.outputs, choice.steps):
            yield Choice(choice.outputs, (*choice.steps, step))

    def first(self, draft: Draft) -> Built | None:
        """The kernels before the last one that has begun to get a block graph, if there are any."""
        custom = [place for place, kernel in enumerate(draft.kernels) if kernel.step < 0]
        if len(draft.graphs) < 2:
            return None
        return self.built(
            Draft(draft.kernels[: custom[len(draft.graphs) - 1]], (), draft.graphs[:-1])
        )

    def built(self, draft: Draft) -> Built | None:
        """The program, where nothing is left to be chosen."""
        custom = sum(kernel.step < 0 for kernel in draft.kernels)
        if draft.needed or len(draft.graphs) < custom:
            return None
        found = [self._blocks.graph(choice.outputs, choice.steps) for choice in draft.graphs]
        if None in found:
            return None
        graphs = iter(found)
        chosen = (next(graphs) if kernel.step < 0 else None for kernel in draft.kernels)
        return Built(draft.kernels, tuple(chosen))
