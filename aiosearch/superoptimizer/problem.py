"""The superoptimizer as a problem of the engine: a tree whose leaves are kernel graphs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from msgspec import Struct
from msgspec.msgpack import encode

from ..tensor import DType, TensorType, Term
from ..tensor.files import from_json
from ..tensor.terms import bytes_of
from .building import Builder, built_targets
from .formal import read
from .forms import is_whole, label_of
from .going import Going, always
from .skeletons import Kernel, Skeleton, Skeletons
from .space import Space
from .tables import Tables
from .values import number


class Found(Struct, frozen=True):
    """A kernel graph that computes the reference, and how many programs it stands for."""

    kernels: tuple[Kernel, ...]
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
        if node.needed:
            return ()
        kernels = in_order(node.kernels, self.tables.given)
        programs = prod(map(self.skeletons.count, kernels))
        return (Found(kernels, min(programs, MOST), float(self._bytes(kernels))),)

    def priority(self, node: Skeleton) -> float:
        """What the kernels so far have to move, and at least one more for what is needed."""
        return self._bytes(node.kernels) + len(node.needed)

    def key(self, node: Skeleton) -> bytes:
        """Gives what the node is: a kernel of two outputs comes about by way of either."""
        return encode(node)

    @cached_property
    def tables(self) -> Tables:
        return self.prepare()

    def prepare(self, going: Going = always) -> Tables:
        """Computes the tables beforehand, which may take long."""
        tables = Tables(read(from_json(self.program)), self.space, going)
        self.__dict__["tables"] = tables
        return tables

    @cached_property
    def skeletons(self) -> Skeletons:
        return Skeletons(self.tables)

    @cached_property
    def builder(self) -> Builder:
        return Builder(self.tables)

    def _bytes(self, kernels: tuple[Kernel, ...]) -> int:
        moved = [one for kernel in kernels for one in (*kernel.loads, *kernel.tensors)]
        return sum(map(self._size, moved))

    def _size(self, tensor: int) -> int:
        """The bytes of a tensor, where a grid's part of an index counts as one."""
        sizes = self.tables.reference.sizes
        pieces = [piece for axis in self.tables.classes[tensor].axes for piece in axis]
        whole = [sizes[label_of(piece)] for piece in pieces if is_whole(piece)]
        return prod(whole) * self._widths.get(tensor, self._width)

    @cached_property
    def _widths(self) -> dict[int, int]:
        """Of the inputs, the bytes of an element."""
        inputs = self.tables.reference.program.inputs
        return dict(zip(self.tables.inputs, map(_width, inputs), strict=True))

    @cached_property
    def _width(self) -> int:
        """No tensor that is computed has elements of fewer bytes."""
        terms = self.tables.reference.program.terms()
        return min(_width(term) for term in terms if term.dtype is not DType.WEAK)


MOST = (1 << 63) - 1
"""Programs that are counted."""


def _width(term: Term) -> int:
    return number(bytes_of(TensorType(term.dtype, ())))


def in_order(kernels: tuple[Kernel, ...], given: set[int]) -> tuple[Kernel, ...]:
    """The kernels in an order in which they can run, the same however they came."""
    left = list(kernels)
    there = set(given)
    found: list[Kernel] = []
    while left:
        kernel = next(kernel for kernel in left if set(kernel.loads) <= there)
        left.remove(kernel)
        found.append(kernel)
        there |= set(kernel.tensors)
    return tuple(found)
