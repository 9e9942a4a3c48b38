"""`Fusion`: the superoptimizer as a search problem, whose leaves are kernel graphs."""

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
    """What its kernels have to move at least."""


@dataclass(frozen=True)
class Fusion:
    """Every kernel graph of a space that computes a program, which is given as JSON.

    A node is kernels and the tensors that still need one. The number of operators of a block, of
    kernels and of inputs bounds the tree; nothing in it is explored that is no part of the program.
    """

    program: bytes
    space: Space = field(default_factory=Space)
    digest: str = ""
    """Of the tables that nodes are told in, where those of a journal have to be the same."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe_search(self.program, self.space, self.digest)})"

    def root(self) -> Skeleton:
        """Gives the outputs, for which there are no kernels yet."""
        targets = built_targets(self.tables)
        whole = len(targets) == len(self.tables.targets)
        return self.skeletons.root(tuple(targets)) if whole else Skeleton((), (-1,))

    def expand(self, node: Skeleton) -> list[Skeleton]:
        """Gives one of the tensors a kernel, in every way."""
        return [] if node.needed[:1] == (-1,) else list(self.skeletons.expand(node))

    def solutions(self, node: Skeleton) -> tuple[Found, ...]:
        """Gives a kernel graph that needs nothing more."""
        return () if node.needed else (self.found(in_order(node.kernels, self.tables.given)),)

    def found(self, kernels: tuple[SkeletonKernel, ...]) -> Found:
        """What there is to say of a kernel graph."""
        programs = prod(map(self.skeletons.count, kernels))
        return Found(kernels, min(programs, MOST), float(self.least.moved(kernels)))

    def priority(self, node: Skeleton) -> float:
        """What the kernels so far have to move, and at least one more for what is needed."""
        return self.least.moved(node.kernels) + len(node.needed)

    def key(self, node: Skeleton) -> bytes:
        """Gives what the node is: a kernel of two outputs comes about by way of either."""
        return encode(node)

    @cached_property
    def tables(self) -> DerivationGraph:
        return self.prepare()

    def prepare(self, going: ShouldContinue = always_continue) -> DerivationGraph:
        """Computes the tables beforehand, which may take long."""
        tables = DerivationGraph(read(from_json(self.program)), self.space, going)
        if self.digest not in ("", tables.digest()):
            raise OtherTablesError(f"{self!r}: here the tables are {tables.digest()}")
        self.__dict__["tables"] = tables
        return tables

    def tied(self) -> Fusion:
        """The same, so that it goes on from no journal, and with no worker, of other tables."""
        found = replace(self, digest=self.tables.digest())
        found.__dict__["tables"] = self.tables
        return found

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
    """A program, its space and its tables, for people."""
    try:
        found = from_json(program)
    except TensorError as error:
        return f"no program: {error}"
    inputs = ", ".join(f"{one.parameter('name')} {one.type}" for one in found.inputs)
    limits = f"{space.kernels} kernels, {space.custom_kernels} of them made for it with"
    tables = f", tables {digest}" if digest else ""
    return f"{found.name}({inputs}), {limits} {space.block_operators} operators{tables}"


MOST = (1 << 63) - 1
"""Programs that are counted."""
