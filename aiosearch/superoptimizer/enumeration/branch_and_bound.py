"""`Fastest`: the superoptimizer as a branch-and-bound problem, whose leaves are programs with sizes
and a cost.

Problem: where only the best program is asked for, most kernel graphs need not get block graphs and
sizes. The tree of `Fusion` goes on below its leaves: the kernels of a graph get their block graphs,
one derivation after the other, and a leaf is a priced program.

A draft's bound is what no program below it can beat: the launches and the traffic of its kernels,
what it lacks, and, once the first kernels have their block graphs, what these take with the best of
their own sizes. Worked example: with rms_norm on an A100 the bound of the root is the time of
50,659,328 bytes and one launch, 2.584e-5 s.

Invariant: `Fastest.bound` never exceeds `Fastest.cost` of any leaf below; a search in the order of
bounds is then complete under the cost model.

Cost: what the first kernels take is remembered by those kernels; the remainder of a bound is sums
over tensors.

See docs/why/superoptimizer.md, "The best alone".
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
    """The classes of the tiles that are stored."""
    steps: Steps = ()


class ProgramDraft(Struct, frozen=True, array_like=True):
    """Kernels, tensors that have none yet, and block graphs of the first of those that have one."""

    kernels: tuple[SkeletonKernel, ...]
    """Kernels; in the order in which they run, once no tensor lacks a kernel."""
    needed: tuple[int, ...] = ()
    graphs: tuple[BlockChoice, ...] = ()


class ProgramDrafts:
    """Goes from a draft to those that have one choice more; each leads to a program."""

    def __init__(self, skeletons: Skeletons) -> None:
        self._skeletons = skeletons
        self._blocks = skeletons.blocks

    def begun(self, node: Skeleton) -> ProgramDraft:
        """The draft of a kernel graph, of which no block graph is chosen yet."""
        if node.needed:
            return ProgramDraft(node.kernels, node.needed)
        return ProgramDraft(in_order(node.kernels, self._skeletons.tables.available))

    def expand(self, draft: ProgramDraft) -> Iterator[ProgramDraft]:
        """Gives a tensor its kernel, a kernel its outputs' tiles, or a tile its operands."""
        if draft.needed:
            node = Skeleton(draft.kernels, draft.needed)
            yield from map(self.begun, self._skeletons.expand(node))
            return
        # Block graphs are chosen for one kernel after the other. A list that is empty means that
        # the last one is complete, and the next kernel begins.
        custom = [kernel for kernel in draft.kernels if kernel.step < 0]
        if draft.graphs:
            *before, last = draft.graphs
            longer = list(self._extended(last, custom[len(before)]))
            if longer:
                yield from (ProgramDraft(draft.kernels, (), (*before, choice)) for choice in longer)
                return
        for kernel in custom[len(draft.graphs) :][:1]:
            for tiles in self._skeletons.tilings(kernel):
                yield ProgramDraft(draft.kernels, (), (*draft.graphs, BlockChoice(tiles)))

    def _extended(self, choice: BlockChoice, kernel: SkeletonKernel) -> Iterator[BlockChoice]:
        """The block graph `choice` with one derivation more, in every way that can end well."""
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
        block_graphs = [self._blocks.graph(choice.outputs, choice.steps) for choice in draft.graphs]
        # The last graph is still open, or one of them goes in a circle.
        if None in block_graphs:
            return None
        # Block graphs are only of block kernels, in the order in which these run.
        graphs = iter(block_graphs)
        chosen = (next(graphs) if kernel.step < 0 else None for kernel in draft.kernels)
        return BuiltKernels(draft.kernels, tuple(chosen))


class Priced(Struct, frozen=True):
    """A program, and what it should take with the sizes that suit the device best."""

    kernels: tuple[SkeletonKernel, ...]
    graphs: tuple[BlockChoice, ...]
    seconds: float


@dataclass(frozen=True)
class Fastest:
    """Every program of a space that computes the given one, with its cost on a device.

    In an order that prunes, the best is found and little else is looked at; in any other, all
    are.
    """

    program: bytes
    """The program as JSON."""
    device: Device
    space: Space = field(default_factory=Space)
    digest: str = ""
    """The digest of the derivation graph that nodes refer to, where those of a journal have to be
    the same."""

    def __repr__(self) -> str:
        shown = describe_search(self.program, self.space, self.digest)
        return f"{type(self).__name__}({shown} on {self.device.name})"

    def root(self) -> ProgramDraft:
        """The outputs, for which there are no kernels yet."""
        node = self.fusion.root()
        return ProgramDraft(node.kernels, node.needed)

    def expand(self, node: ProgramDraft) -> list[ProgramDraft]:
        """Makes one choice, in every way."""
        return [] if node.needed[:1] == (-1,) else list(self.drafts.expand(node))

    def solutions(self, node: ProgramDraft) -> tuple[Priced, ...]:
        """The program of a draft that lacks nothing, if it fits the device."""
        filling = self._filled(node)
        if filling is None:
            return ()
        return (Priced(node.kernels, node.graphs, filling.prediction.seconds),)

    def cost(self, solution: Priced) -> float:
        """The seconds that `solution` should take."""
        return solution.seconds

    def bound(self, node: ProgramDraft) -> float:
        """A lower bound of the seconds of every program that `node` leads to."""
        lacking = self.fusion.skeletons.lacking(node.kernels, node.needed)
        least = self.fusion.least.seconds(node.kernels, node.needed, lacking, self.device)
        first = self.drafts.first(node)
        if first is None:
            return least
        # Two bounds of which neither contains the other: the first counts all traffic at full
        # speed, the second what the finished kernels really take, and only launches and traffic of
        # the others.
        unfinished = self.fusion.least.alone(node.kernels[len(first.kernels) :], self.device)
        return max(least, self._first_seconds(first) + unfinished)

    def _first_seconds(self, first: BuiltKernels) -> float:
        """What the first kernels of a program take at least, whatever comes after them."""
        seconds = self._first_kernel_seconds.get(first)
        if seconds is None:
            builder = self.fusion.builder
            seconds = self._first_kernel_seconds[first] = least_of(
                partial(builder.part, first), builder.extents(first), self.device
            )
        return seconds

    @cached_property
    def _first_kernel_seconds(self) -> dict[BuiltKernels, float]:
        return {}

    def key(self, node: ProgramDraft) -> bytes:
        """What the draft is: a kernel of two outputs comes about by way of either."""
        return encode(node)

    def ranked(
        self, priced: Sequence[Priced], most: int, going: ShouldContinue = always_continue
    ) -> list[Ranked]:
        """The best program of each kernel graph among `priced`, best first, at most `most`.

        Of programs that should take the same time it is one that moves less, where that is among
        those that a `Ranking` looks at.
        """
        best: dict[tuple[SkeletonKernel, ...], Priced] = {}
        # Falling costs: what is assigned last to a kernel graph is its cheapest program.
        for program in sorted(priced, key=self.cost)[::-1]:
            best[program.kernels] = program
        graphs = [self.fusion.kernel_graph(kernels) for kernels in best]
        ranking = Ranking(self.fusion.skeletons, self.device)
        by_kernels = {
            program.built.kernels: program for program in ranking.best(graphs, most, going)
        }
        searched = [self._ranked(program) for program in best.values()]
        chosen = [
            min(program, by_kernels.get(program.built.kernels, program), key=rank_of)
            for program in searched
        ]
        return sorted(chosen, key=rank_of)[:most]

    def _ranked(self, priced: Priced) -> Ranked:
        built = self.drafts.built(ProgramDraft(priced.kernels, (), priced.graphs))
        assert built is not None
        filling = filled(self.fusion.builder, built, self.device)
        assert filling is not None
        return Ranked(built, filling, self.fusion.kernel_graph(priced.kernels).programs)

    def prepare(self, going: ShouldContinue = always_continue) -> None:
        """Computes the derivation graph beforehand, which may take long."""
        self.fusion.prepare(going)

    def tied(self) -> Fastest:
        """A problem of this `digest`, which goes on from no journal, and with no worker, of other
        tables.
        """
        fusion = self.fusion.tied()
        tied = replace(self, digest=fusion.digest)
        tied.__dict__["fusion"] = fusion
        return tied

    @cached_property
    def fusion(self) -> Fusion:
        return Fusion(self.program, self.space, self.digest)

    @cached_property
    def drafts(self) -> ProgramDrafts:
        return ProgramDrafts(self.fusion.skeletons)

    def _filled(self, node: ProgramDraft) -> Filling | None:
        built = None if node.needed else self.drafts.built(node)
        return None if built is None else filled(self.fusion.builder, built, self.device)
