"""The superoptimizer as a problem with a cost: a tree whose leaves are programs with numbers.

It goes on where the tree of kernel graphs ends: the kernels of a graph get their block graphs, one
step after the other. A program's cost is what it should take on a device. A draft's bound is what
its kernels take at least, and what it lacks, so that a search can leave out what cannot be best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from msgspec import Struct
from msgspec.msgpack import encode

from ..devices import Device
from .building import Built
from .drafts import Choice, Draft, Drafts
from .filling import Filling, least_of
from .going import Going, always
from .problem import Fusion, told
from .ranking import Ranked, Ranking, filled, rank_of
from .skeletons import Kernel
from .space import Space


class Priced(Struct, frozen=True):
    """A program, and what it should take with the numbers that suit the device best."""

    kernels: tuple[Kernel, ...]
    graphs: tuple[Choice, ...]
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
        shown = told(self.program, self.space, self.digest)
        return f"{type(self).__name__}({shown} on {self.device.name})"

    def root(self) -> Draft:
        """Gives the outputs, for which there are no kernels yet."""
        node = self.fusion.root()
        return Draft(node.kernels, node.needed)

    def expand(self, node: Draft) -> list[Draft]:
        """Makes one choice, in every way."""
        return [] if node.needed[:1] == (-1,) else list(self.drafts.expand(node))

    def solutions(self, node: Draft) -> tuple[Priced, ...]:
        """Gives the program of a draft that lacks nothing, if it fits the device."""
        filling = self._filled(node)
        if filling is None:
            return ()
        return (Priced(node.kernels, node.graphs, filling.prediction.seconds),)

    def cost(self, solution: Priced) -> float:
        """The seconds that it should take."""
        return solution.seconds

    def bound(self, node: Draft) -> float:
        """No program that a draft leads to takes less."""
        more = self.fusion.skeletons.lacking(node.kernels, node.needed)
        least = self.fusion.least.seconds(node.kernels, node.needed, more, self.device)
        first = self.drafts.first(node)
        if first is None:
            return least
        rest = self.fusion.least.alone(node.kernels[len(first.kernels) :], self.device)
        return max(least, self._first_seconds(first) + rest)

    def _first_seconds(self, first: Built) -> float:
        """What the first kernels of a program take at least, whatever comes after them."""
        found = self._known.get(first)
        if found is None:
            builder = self.fusion.builder
            found = self._known[first] = least_of(
                partial(builder.part, first), builder.extents(first), self.device
            )
        return found

    @cached_property
    def _known(self) -> dict[Built, float]:
        return {}

    def key(self, node: Draft) -> bytes:
        """Gives what the draft is: a kernel of two outputs comes about by way of either."""
        return encode(node)

    def ranked(self, found: Sequence[Priced], most: int, going: Going = always) -> list[Ranked]:
        """The best of each kernel graph among these, best first.

        Of programs that should take the same time it is one that moves less, where that is among
        those that a ranking looks at.
        """
        best: dict[tuple[Kernel, ...], Priced] = {}
        for one in sorted(found, key=self.cost)[::-1]:
            best[one.kernels] = one
        graphs = [self.fusion.found(kernels) for kernels in best]
        ranking = Ranking(self.fusion.skeletons, self.device)
        others = {one.built.kernels: one for one in ranking.best(graphs, most, going)}
        own = [self._ranked(one) for one in best.values()]
        chosen = [min(one, others.get(one.built.kernels, one), key=rank_of) for one in own]
        return sorted(chosen, key=rank_of)[:most]

    def _ranked(self, priced: Priced) -> Ranked:
        built = self.drafts.built(Draft(priced.kernels, (), priced.graphs))
        assert built is not None
        filling = filled(self.fusion.builder, built, self.device)
        assert filling is not None
        return Ranked(built, filling, self.fusion.found(priced.kernels).programs)

    def prepare(self, going: Going = always) -> None:
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
    def drafts(self) -> Drafts:
        return Drafts(self.fusion.skeletons)

    def _filled(self, node: Draft) -> Filling | None:
        built = None if node.needed else self.drafts.built(node)
        return None if built is None else filled(self.fusion.builder, built, self.device)
