"""`Fusion`: the superoptimizer as a search problem, whose leaves are kernel graphs.

A node is a `Skeleton`; the engine deals nodes out to workers, which rebuild the derivation graph
from `Fusion.program` and name classes by number. So the graph has to be the same everywhere:
`Fusion.digest` makes sure of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from msgspec import Struct
from msgspec.msgpack import encode

from ...tensor.errors import TensorError
from ...tensor.files import from_json
from ..algebra.program_reader import read
from ..build.mugraph import Builder, built_targets
from ..derive.derivations import DerivationGraph
from ..derive.lower_bounds import KernelLowerBound
from ..progress import ShouldContinue, always_continue
from ..space import Space
from .kernel_graphs import Skeleton, SkeletonKernel, Skeletons, in_order


class Found(Struct, frozen=True):
    """A kernel graph that computes the reference, and how many programs it stands for."""

    kernels: tuple[SkeletonKernel, ...]
    programs: int
    least_bytes: float
    """The bytes that its kernels have to move at least."""


@dataclass(frozen=True)
class Fusion:
    """Every kernel graph of a space that computes a program, which is given as JSON.

    A node is kernels and the tensors that still need one. The number of operators of a block,
    of kernels and of inputs bounds the tree; nothing in it is explored that is no part of the
    program.
    """

    program: bytes
    space: Space = field(default_factory=Space)
    digest: str = ""
    """The digest of the derivation graph that nodes refer to, where those of a journal have to be
    the same."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe_search(self.program, self.space, self.digest)})"

    def root(self) -> Skeleton:
        """The outputs, for which there are no kernels yet."""
        targets = built_targets(self.tables)
        # An output that has no class can never be computed: the node that needs -1 has no children,
        # so the search ends at once, complete and empty.
        whole = len(targets) == len(self.tables.targets)
        return self.skeletons.root(tuple(targets)) if whole else Skeleton((), (-1,))

    def expand(self, node: Skeleton) -> list[Skeleton]:
        """Gives one of the needed tensors a kernel, in every way."""
        return [] if node.needed[:1] == (-1,) else list(self.skeletons.expand(node))

    def solutions(self, node: Skeleton) -> tuple[Found, ...]:
        """The kernel graph of a node that needs nothing more."""
        return (
            ()
            if node.needed
            else (self.kernel_graph(in_order(node.kernels, self.tables.available)),)
        )

    def kernel_graph(self, kernels: tuple[SkeletonKernel, ...]) -> Found:
        """A kernel graph with its number of programs and its traffic."""
        # Block graphs of different kernels combine freely.
        programs = prod(map(self.skeletons.count, kernels))
        return Found(kernels, min(programs, MOST), float(self.least.moved(kernels)))

    def priority(self, node: Skeleton) -> float:
        """The bytes that the kernels so far have to move, and one more for each needed tensor."""
        return self.least.moved(node.kernels) + len(node.needed)

    def key(self, node: Skeleton) -> bytes:
        """What the node is: a kernel of two outputs comes about by way of either."""
        return encode(node)

    @cached_property
    def tables(self) -> DerivationGraph:
        """The `DerivationGraph` of the program, computed on first use."""
        return self.prepare()

    def prepare(self, going: ShouldContinue = always_continue) -> DerivationGraph:
        """Computes the derivation graph beforehand, which may take long; `going` is called with the
        progress.
        """
        tables = DerivationGraph(read(from_json(self.program)), self.space, going)
        # Nodes name classes by number: with another graph they would mean other values, and the
        # search would go on without a sign of it.
        if self.digest not in ("", tables.digest()):
            raise OtherTablesError(f"{self!r}: here the tables are {tables.digest()}")
        # The dataclass is frozen; a cached property lives in the instance's dictionary, and is
        # neither compared nor sent to workers.
        self.__dict__["tables"] = tables
        return tables

    def tied(self) -> Fusion:
        """A problem of this `digest`, which goes on from no journal, and with no worker, of other
        tables.
        """
        tied = replace(self, digest=self.tables.digest())
        tied.__dict__["tables"] = self.tables
        return tied

    @cached_property
    def skeletons(self) -> Skeletons:
        return Skeletons(self.tables)

    @cached_property
    def least(self) -> KernelLowerBound:
        return KernelLowerBound(self.tables)

    @cached_property
    def builder(self) -> Builder:
        return Builder(self.tables)


class OtherTablesError(TensorError):
    """Tables that are not those of the search: another version of aiosearch made them."""


def describe_search(program: bytes, space: Space, digest: str) -> str:
    """A program, its space and its derivation graph, for people."""
    try:
        parsed = from_json(program)
    except TensorError as error:
        return f"no program: {error}"
    inputs = ", ".join(f"{term.parameter('name')} {term.type}" for term in parsed.inputs)
    limits = f"{space.kernels} kernels, {space.custom_kernels} of them made for it with"
    tables = f", tables {digest}" if digest else ""
    return f"{parsed.name}({inputs}), {limits} {space.block_operators} operators{tables}"


MOST = (1 << 63) - 1
"""The most programs that are counted, the largest integer of the wire format."""
