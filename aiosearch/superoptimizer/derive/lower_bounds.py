"""Lower bounds in bytes and seconds, of a kernel graph and of any program that computes the
outputs.

Two bounds: `KernelLowerBound` for drafts of the search, where the sizes of grids are open, and
`least_seconds` for every program that computes what a given one does.

Worked example: rms_norm reads and writes 50,659,328 bytes at least. An A100 moves 2.039e12 bytes a
second and takes 1e-6 s for a launch, so nothing takes less than 2.584e-5 s.

Invariant: a bound never exceeds what a program takes by the cost model, or branch and bound would
lose the best; tests compare the bound of every node of small trees with the best of its leaves.

Cost: a sum over the tensors of a draft; the size of a tensor is computed once.

See docs/why/superoptimizer.md, "The best alone".
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
    """Bytes that have to be moved, where a grid's part of an index counts as one element.

    The size of that part is not chosen yet, and one is the least that it can be.
    """

    def __init__(self, tables: DerivationGraph) -> None:
        self._tables = tables
        self._reference = tables.reference
        self.size = cache(self._size)

    def moved(self, kernels: Iterable[SkeletonKernel]) -> int:
        """The bytes that `kernels` load and store, each tensor once for each kernel."""
        return sum(
            self.size(tensor) for kernel in kernels for tensor in (*kernel.loads, *kernel.tensors)
        )

    def seconds(
        self,
        kernels: tuple[SkeletonKernel, ...],
        needed: tuple[int, ...],
        further: int,
        device: Device,
    ) -> float:
        """A lower bound of the seconds of programs with `kernels` that compute `needed` too, by
        `further` kernels.

        What is needed has to be stored, and inputs that no kernel has read yet are to be read.
        """
        traffic = self.moved(kernels) + sum(map(self.size, needed))
        traffic += sum(map(self.size, self._inputs - self._read(kernels)))
        launches = len(kernels) + further
        return traffic / device.bytes_per_second + launches * device.launch_seconds

    def alone(self, kernels: tuple[SkeletonKernel, ...], device: Device) -> float:
        """What `kernels` take at least of a program's time."""
        moving = self.moved(kernels) / device.bytes_per_second
        return moving + len(kernels) * device.launch_seconds

    def _read(self, kernels: tuple[SkeletonKernel, ...]) -> set[int]:
        """The inputs that kernels load, whether as they are or moved."""
        loads = {load for kernel in kernels for load in kernel.loads}
        return {self._origins.get(load, load) for load in loads}

    @cached_property
    def _inputs(self) -> set[int]:
        """The inputs that are read in any case: outputs that need a kernel are made of them."""
        outputs = {*self._tables.targets} - {None} - self._tables.available
        # Nothing is cancelled in a form, so an input that is in the form of an output is read by
        # every program that the search can find.
        forms = [self._tables.classes[target].form for target in outputs if target is not None]
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
        """The bytes of an element of each input."""
        inputs = self._reference.program.inputs
        return dict(zip(self._tables.inputs, map(_width, inputs), strict=True))

    @cached_property
    def _width(self) -> int:
        """The bytes of the smallest element of any tensor that is computed."""
        terms = self._reference.program.terms()
        return min((_width(term) for term in terms if term.dtype is not DType.WEAK), default=1)


def _width(term: Term) -> int:
    return number(bytes_of(TensorType(term.dtype, ())))


_DROPS = ("slice", "diagonal", "select", "take", "scatter_add")
"""Operators whose result need not depend on all that they are given."""


def least_seconds(program: Program, device: Device, kernels: int = 1) -> float:
    """A lower bound for every program that gives what `program` does, in `kernels` kernels or more.

    Every input is read once from the device's memory, as far as the outputs depend on all of it;
    every output is written there; every kernel is launched. An input that cancels out, as in `X -
    X`, is taken for needed.
    """
    traffic = number(least_bytes(program))
    return traffic / device.bytes_per_second + kernels * device.launch_seconds


def least_bytes(program: Program) -> Dim:
    """The bytes of the outputs, and of the inputs that they depend on wholly."""
    whole = _fully_read(program)
    tensors = {*program.outputs, *(term for term in program.inputs if term in whole)}
    total: Dim = 0
    for term in tensors:
        total = total + bytes_of(term.type)
    return total


def _fully_read(program: Program) -> set[Term]:
    """The terms of which every element counts; what a slice takes from may be read in part."""
    read_terms = set(program.outputs)
    # Operands come before what uses them, so one pass from the outputs backwards is enough.
    for term in reversed(list(program.terms())):
        if term in read_terms and not _drops(term):
            read_terms.update(term.arguments)
    return read_terms


def _drops(term: Term) -> bool:
    if term.operator.name == "convolution":
        steps = (*term.parameter("strides"), *term.parameter("dilation"))
        # Steps of more than one skip elements of the input.
        return any(step > 1 for step in steps)
    return term.operator.name in _DROPS
