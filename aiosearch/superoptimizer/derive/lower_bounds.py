"""Lower bounds in bytes and seconds, of a kernel graph and of any program that computes the
outputs.

What no program can do without: bytes that have to be moved, whatever computes the outputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, cached_property
from math import prod

from ...devices import Device
from ...tensor import Dim, DType, Program, TensorType, Term
from ...tensor.terms import bytes_of
from ..algebra.normal_form import is_whole, label_of
from ..cost.size_values import number
from ..enumeration.kernel_graphs import SkeletonKernel
from .derivations import DerivationGraph, unmoved


class KernelLowerBound:
    """Bytes that have to be moved, where a grid's part of an index counts as one."""

    def __init__(self, tables: DerivationGraph) -> None:
        self._tables = tables
        self._reference = tables.reference
        self.size = cache(self._size)

    def moved(self, kernels: Iterable[SkeletonKernel]) -> int:
        """What the kernels load and store."""
        return sum(self.size(one) for kernel in kernels for one in (*kernel.loads, *kernel.tensors))

    def seconds(
        self,
        kernels: tuple[SkeletonKernel, ...],
        needed: tuple[int, ...],
        more: int,
        device: Device,
    ) -> float:
        """No program with these kernels takes less that computes `needed` too, by `more` kernels.

        What is needed has to be stored, and inputs that no kernel has read yet are to be read.
        """
        traffic = self.moved(kernels) + sum(map(self.size, needed))
        traffic += sum(map(self.size, self._inputs - self._read(kernels)))
        launches = len(kernels) + more
        return traffic / device.bytes_per_second + launches * device.launch_seconds

    def alone(self, kernels: tuple[SkeletonKernel, ...], device: Device) -> float:
        """What these kernels take at least of a program's time."""
        moving = self.moved(kernels) / device.bytes_per_second
        return moving + len(kernels) * device.launch_seconds

    def _read(self, kernels: tuple[SkeletonKernel, ...]) -> set[int]:
        """The inputs that kernels load, whether as they are or moved."""
        loads = {load for kernel in kernels for load in kernel.loads}
        return {self._origins.get(load, load) for load in loads}

    @cached_property
    def _inputs(self) -> set[int]:
        """The inputs that are read in any case: outputs that need a kernel are made of them."""
        outputs = {*self._tables.targets} - {None} - self._tables.given
        forms = [self._tables.classes[one].form for one in outputs if one is not None]
        names = frozenset().union(*map(self._tables.forms.inputs, forms))
        return {number for name, number in self._numbers.items() if name in names}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        names = [term.parameter("name") for term in self._reference.program.inputs]
        return dict(zip(names, self._tables.inputs, strict=True))

    @cached_property
    def _origins(self) -> dict[int, int]:
        """The input whose elements a view moves."""
        views = self._tables.views.items()
        return {view: self._numbers[unmoved(term).parameter("name")] for view, term in views}

    def _size(self, tensor: int) -> int:
        sizes = self._reference.sizes
        pieces = [piece for axis in self._tables.classes[tensor].axes for piece in axis]
        whole = [sizes[label_of(piece)] for piece in pieces if is_whole(piece)]
        return prod(whole) * self._widths.get(tensor, self._width)

    @cached_property
    def _widths(self) -> dict[int, int]:
        """Of the inputs, the bytes of an element."""
        inputs = self._reference.program.inputs
        return dict(zip(self._tables.inputs, map(_width, inputs), strict=True))

    @cached_property
    def _width(self) -> int:
        """No tensor that is computed has elements of fewer bytes."""
        terms = self._reference.program.terms()
        return min((_width(term) for term in terms if term.dtype is not DType.WEAK), default=1)


def _width(term: Term) -> int:
    return number(bytes_of(TensorType(term.dtype, ())))


_DROPS = ("slice", "diagonal", "select")
"""Operators whose result need not depend on all that they are given."""


def least_seconds(program: Program, device: Device, kernels: int = 1) -> float:
    """A lower bound for every program that gives the same, in so many kernels or more.

    Every input is read once from the device's memory, as far as the outputs depend on all of it;
    every output is written there; every kernel is launched. An input that cancels out, as in
    `X - X`, is taken for needed.
    """
    traffic = number(least_bytes(program))
    return traffic / device.bytes_per_second + kernels * device.launch_seconds


def least_bytes(program: Program) -> Dim:
    """The bytes of the outputs, and of the inputs that they depend on wholly."""
    whole = _fully_read(program)
    tensors = {*program.outputs, *(one for one in program.inputs if one in whole)}
    total: Dim = 0
    for term in tensors:
        total = total + bytes_of(term.type)
    return total


def _fully_read(program: Program) -> set[Term]:
    """The terms of which every element counts."""
    found = set(program.outputs)
    for term in reversed(list(program.terms())):
        if term in found and not _drops(term):
            found.update(term.arguments)
    return found


def _drops(term: Term) -> bool:
    if term.operator.name == "convolution":
        steps = (*term.parameter("strides"), *term.parameter("dilation"))
        return any(step > 1 for step in steps)
    return term.operator.name in _DROPS
