"""The work of each kernel: its blocks, bytes and operations, in named sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...tensor import Dim, DType, Kernel, Place, Program, Term
from ...tensor.analysis.cost import bytes_read, moves, operator_cost, step_cost
from ...tensor.mugraph import LOAD, RESULT
from ...tensor.sizes import product
from ...tensor.terms import INPUT, bytes_of


@dataclass(frozen=True)
class TensorRead:
    """A tensor that a kernel reads."""

    distinct: Dim
    """The bytes of the tensor."""
    streamed: Dim
    """The bytes that all blocks together load of it, in all iterations."""


@dataclass(frozen=True)
class KernelWork:
    """What one kernel has to do."""

    name: str
    reads: tuple[TensorRead, ...]
    written: Dim
    operations: tuple[tuple[DType, Dim], ...]
    kernel: Kernel | None = None
    """The custom kernel, or None for an operator of a library."""

    @property
    def blocks(self) -> Dim:
        assert self.kernel is not None
        return product(self.kernel.grid)


def works(program: Program) -> list[KernelWork]:
    """The kernels that compute a program's outputs, operands first.

    Moved elements are read where they are; an output that is only moved is copied.
    """
    kernels: dict[object, KernelWork] = {}
    for term in program.terms():
        if term.operator is RESULT:
            custom: Kernel = term.parameter("kernel")
            if custom not in kernels:
                kernels[custom] = _block_kernel(custom)
        elif term.place is Place.DEVICE and term.operator is not INPUT and not moves(term):
            kernels[term] = _library_kernel(term)
    copies = [_copy(output) for output in dict.fromkeys(program.outputs) if _needs_copy(output)]
    return [*kernels.values(), *copies]


def _needs_copy(output: Term) -> bool:
    """Whether no kernel writes `output` as it is."""
    # A reshape in row-major order moves nothing.
    while output.operator.name == "reshape":
        (output,) = output.arguments
    if output.operator is INPUT or output.place is Place.ANYWHERE:
        return True
    return output.operator is not RESULT and moves(output)


def _copy(output: Term) -> KernelWork:
    size = bytes_of(output.type)
    read = bytes_read(output)
    return KernelWork("copy", (TensorRead(read, read),), size, ())


def _library_kernel(term: Term) -> KernelWork:
    cost = operator_cost(term)
    # x·x reads x once.
    reads = tuple(_whole(operand) for operand in dict.fromkeys(term.arguments))
    return KernelWork(term.operator.name, reads, cost.bytes_written, ((_dtype(term), cost.flops),))


def _whole(operand: Term) -> TensorRead:
    size = bytes_read(operand)
    return TensorRead(size, size)


def _block_kernel(kernel: Kernel) -> KernelWork:
    blocks = product(kernel.grid)
    written: Dim = 0
    for tile, _ in kernel.outputs:
        written = written + bytes_of(tile.type) * blocks
    operations: dict[DType, Dim] = {}
    streamed: dict[Term, Dim] = {}
    for term, flops, read in _steps(kernel):
        if term.operator is LOAD:
            (source,) = term.arguments
            # A tensor that two loads of a block read is read twice by each block.
            streamed[source] = streamed.get(source, 0) + read * blocks
        else:
            dtype = _dtype(term)
            operations[dtype] = operations.get(dtype, 0) + flops * blocks
    reads = tuple(TensorRead(bytes_read(source), read) for source, read in streamed.items())
    return KernelWork("custom", reads, written, tuple(operations.items()), kernel)


def _steps(kernel: Kernel) -> Iterator[tuple[Term, Dim, Dim]]:
    """Each term of a block with the operations and the bytes that one block spends on it."""
    for term in kernel.body:
        cost = step_cost(term, kernel.range)
        yield term, cost.flops, cost.bytes_read


def _dtype(term: Term) -> DType:
    """The element type that an operator computes with."""
    for argument in term.arguments:
        # A literal takes the type of what it meets.
        if argument.dtype is not DType.WEAK:
            return argument.dtype
    return term.dtype
