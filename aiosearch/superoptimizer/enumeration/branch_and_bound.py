"""`Fastest`: the superoptimizer as a branch-and-bound problem, whose leaves are programs with
sizes and a cost.

It goes on where the tree of kernel graphs ends: the kernels of a graph get their block graphs, one
step after the other. A program's cost is what it should take on a device. A draft's bound is what
its kernels take at least, and what it lacks, so that a search can leave out what cannot be best.

Programs of kernels as they are put together: which kernels there are, then what is in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from msgspec import Struct
from msgspec.msgpack import encode

from ...devices import Device
from ..build.mugraph import BuiltKernels
from ..cost.ranking import Ranked, Ranking, filled, rank_of
from ..cost.sizes import Filling, least_of
from ..progress import ShouldContinue, always_continue
from ..space import Space
from .block_graphs import Steps
from .kernel_graphs import Skeleton, SkeletonKernel, Skeletons, in_order
from .problem import Fusion, describe_search


class BlockChoice(Struct, frozen=True, array_like=True):
    """A block graph as far as it is chosen, from its end."""

    outputs: tuple[int, ...]
    """The tiles that are stored."""
    steps: Steps = ()


class ProgramDraft(Struct, frozen=True, array_like=True):
    """Kernels, tensors that have none yet, and block graphs of the first of those that have one."""

    kernels: tuple[SkeletonKernel, ...]
    """Where no tensor lacks one, in the order in which they run."""
    needed: tuple[int, ...] = ()
    graphs: tuple[BlockChoice, ...] = ()


class ProgramDrafts:
    """Goes from a draft to those that have one choice more; each leads to a program."""

    def __init__(self, skeletons: Skeletons) -> None:
        self._skeletons = skeletons
        self._blocks = skeletons.blocks

    def begun(self, node: Skeleton) -> ProgramDraft:
        if node.needed:
            return ProgramDraft(node.kernels, node.needed)
        return ProgramDraft(in_order(node.kernels, self._skeletons.tables.given))

    def expand(self, draft: ProgramDraft) -> Iterator[ProgramDraft]:
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
                yield from (ProgramDraft(draft.kernels, (), (*before, one)) for one in more)
                return
        for kernel in custom[len(draft.graphs) :][:1]:
            for tiles in self._skeletons.tilings(kernel):
                yield ProgramDraft(draft.kernels, (), (*draft.graphs, BlockChoice(tiles)))

    def _longer(self, choice: BlockChoice, kernel: SkeletonKernel) -> Iterator[BlockChoice]:
        for step in self._skeletons.ahead(kernel, choice.outputs, choice.steps):
            yield BlockChoice(choice.outputs, (*choice.steps, step))

    def first(self, draft: ProgramDraft) -> BuiltKernels | None:
        """The kernels before the last one that has begun to get a block graph, if there are any."""
        custom = [place for place, kernel in enumerate(draft.kernels) if kernel.step < 0]
        if len(draft.graphs) < 2:
            return None
        return self.built(
            ProgramDraft(draft.kernels[: custom[len(draft.graphs) - 1]], (), draft.graphs[:-1])
        )

    def built(self, draft: ProgramDraft) -> BuiltKernels | None:
        """The program, where nothing is left to be chosen."""
        custom = sum(kernel.step < 0 for kernel in draft.kernels)
        if draft.needed or len(draft.graphs) < custom:
            return None
        found = [self._blocks.graph(choice.outputs, choice.steps) for choice in draft.graphs]
        if None in found:
            return None
        graphs = iter(found)
        chosen = (next(graphs) if kernel.step < 0 else None for kernel in draft.kernels)
        return BuiltKernels(draft.kernels, tuple(chosen))


pass


class Priced(Struct, frozen=True):
    """A program, and what it should take with the numbers that suit the device best."""

    kernels: tuple[SkeletonKernel, ...]
    graphs: tuple[BlockChoice, ...]
    seconds: float


@dataclass(frozen=True)
class Fastest:
    """Every program of a space that computes the given one, with its cost on a device.

    In an order that prunes the best is found and little else is looked at; in any other, all are.
    """

    program: bytes
    """As JSON."""
    device: Device
    space: Space = field(default_factory=Space)
    digest: str = ""
    """Of the tables that nodes are told in, where those of a journal have to be the same."""

    def __repr__(self) -> str:
        shown = describe_search(self.program, self.space, self.digest)
        return f"{type(self).__name__}({shown} on {self.device.name})"

    def root(self) -> ProgramDraft:
        """Gives the outputs, for which there are no kernels yet."""
        node = self.fusion.root()
        return ProgramDraft(node.kernels, node.needed)

    def expand(self, node: ProgramDraft) -> list[ProgramDraft]:
        """Makes one choice, in every way."""
        return [] if node.needed[:1] == (-1,) else list(self.drafts.expand(node))

    def solutions(self, node: ProgramDraft) -> tuple[Priced, ...]:
        """Gives the program of a draft that lacks nothing, if it fits the device."""
        filling = self._filled(node)
        if filling is None:
            return ()
        return (Priced(node.kernels, node.graphs, filling.prediction.seconds),)

    def cost(self, solution: Priced) -> float:
        """The seconds that it should take."""
        return solution.seconds

    def bound(self, node: ProgramDraft) -> float:
        """No program that a draft leads to takes less."""
        more = self.fusion.skeletons.lacking(node.kernels, node.needed)
        least = self.fusion.least.seconds(node.kernels, node.needed, more, self.device)
        first = self.drafts.first(node)
        if first is None:
            return least
        rest = self.fusion.least.alone(node.kernels[len(first.kernels) :], self.device)
        return max(least, self._first_seconds(first) + rest)

    def _first_seconds(self, first: BuiltKernels) -> float:
        """What the first kernels of a program take at least, whatever comes after them."""
        found = self._known.get(first)
        if found is None:
            builder = self.fusion.builder
            found = self._known[first] = least_of(
                partial(builder.part, first), builder.extents(first), self.device
            )
        return found

    @cached_property
    def _known(self) -> dict[BuiltKernels, float]:
        return {}

    def key(self, node: ProgramDraft) -> bytes:
        """Gives what the draft is: a kernel of two outputs comes about by way of either."""
        return encode(node)

    def ranked(
        self, found: Sequence[Priced], most: int, going: ShouldContinue = always_continue
    ) -> list[Ranked]:
        """The best of each kernel graph among these, best first.

        Of programs that should take the same time it is one that moves less, where that is among
        those that a ranking looks at.
        """
        best: dict[tuple[SkeletonKernel, ...], Priced] = {}
        for one in sorted(found, key=self.cost)[::-1]:
            best[one.kernels] = one
        graphs = [self.fusion.found(kernels) for kernels in best]
        ranking = Ranking(self.fusion.skeletons, self.device)
        others = {one.built.kernels: one for one in ranking.best(graphs, most, going)}
        own = [self._ranked(one) for one in best.values()]
        chosen = [min(one, others.get(one.built.kernels, one), key=rank_of) for one in own]
        return sorted(chosen, key=rank_of)[:most]

    def _ranked(self, priced: Priced) -> Ranked:
        built = self.drafts.built(ProgramDraft(priced.kernels, (), priced.graphs))
        assert built is not None
        filling = filled(self.fusion.builder, built, self.device)
        assert filling is not None
        return Ranked(built, filling, self.fusion.found(priced.kernels).programs)

    def prepare(self, going: ShouldContinue = always_continue) -> None:
        """Computes the tables beforehand, which may take long."""
        self.fusion.prepare(going)

    def tied(self) -> Fastest:
        """The same, so that it goes on from no journal, and with no worker, of other tables."""
        fusion = self.fusion.tied()
        found = replace(self, digest=fusion.digest)
        found.__dict__["fusion"] = fusion
        return found

    @cached_property
    def fusion(self) -> Fusion:
        return Fusion(self.program, self.space, self.digest)

    @cached_property
    def drafts(self) -> ProgramDrafts:
        return ProgramDrafts(self.fusion.skeletons)

    def _filled(self, node: ProgramDraft) -> Filling | None:
        built = None if node.needed else self.drafts.built(node)
        return None if built is None else filled(self.fusion.builder, built, self.device)
