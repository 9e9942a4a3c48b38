"""The cost of a program: floating-point operations, bytes moved, kernels started.

Each operator outside a custom kernel is a kernel of its own: it reads its operands and writes its
result. Operators that only move elements (`moves`) cost nothing: what uses them reads their source.
A block of a custom kernel loads its tile anew in each iteration where the loop splits it, else
once; blocks share nothing, so a tile that the grid does not split is loaded by each of them.

Example: `matmul` of f32[8, 4] and f32[4, 2] takes 2·8·4·2 = 128 operations, reads 4·(32 + 8) = 160
bytes and writes 64.

Invariant: sizes may be symbolic; every cost is then a polynomial in them. Cost: one step for each
term. See docs/why/superoptimizer.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..mugraph import ACCUMULATE, LOAD, READ, RESULT, WRITE, Kernel
from ..sizes import Dim, product, quotient
from ..terms import INPUT, LITERAL, Program, Term, bytes_of
from ..types import Place


@dataclass(frozen=True, slots=True)
class Cost:
    """Counts of a program's work: integers, or polynomials where sizes are named."""

    flops: Dim = 0
    bytes_read: Dim = 0
    bytes_written: Dim = 0
    kernels: int = 0
    """Kernels that are started, whose launch takes time of its own."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
            self.kernels + other.kernels,
        )


def cost(program: Program) -> Cost:
    """The `Cost` of computing every output of `program` once."""
    total = Cost()
    kernels: set[Kernel] = set()
    for term in program.terms():
        if term.operator is RESULT:
            kernels.add(term.parameter("kernel"))
        # Terms within kernels are counted by `_kernel`, once for each kernel.
        elif term.place is Place.DEVICE and term.operator is not INPUT and not moves(term):
            total += operator_cost(term)
    return sum(map(_kernel, kernels), total)


def moves(term: Term) -> bool:
    """Whether the operator of `term` only moves elements, and computes nothing."""
    return flops_of(term) == 0


def flops_of(term: Term) -> Dim:
    """The arithmetic of computing `term` once, from its operands."""
    shapes = [argument.shape for argument in term.arguments]
    return term.operator.flops(shapes, term.shape, **dict(term.parameters))


def operator_cost(term: Term) -> Cost:
    """The `Cost` of an operator outside of custom kernels."""
    # mul(x, x) reads x once.
    operands = dict.fromkeys(term.arguments)
    read = sum((bytes_read(operand) for operand in operands), start=_NOTHING)
    return Cost(flops_of(term), read, bytes_of(term.type), 1)


_NOTHING: Dim = 0


def bytes_read(term: Term) -> Dim:
    """Bytes read for an operand: none for a literal, those of its source for a repeated tensor."""
    if term.operator is LITERAL or (not term.arguments and term.operator is not INPUT):
        return 0
    if len(term.arguments) != 1 or term.operator is RESULT or not moves(term):
        return bytes_of(term.type)
    (source,) = term.arguments
    # A repetition has a multiple of its source's elements; a slice has fewer, and is read as it is.
    whole = quotient(product(term.shape), product(source.shape))
    return bytes_of(term.type) if whole is None else bytes_read(source)


def _kernel(kernel: Kernel) -> Cost:
    """The `Cost` of one custom kernel, over all its blocks."""
    blocks = product(kernel.grid)
    total = Cost(kernels=1)
    for term in kernel.body:
        total += step_cost(term, kernel.range)
    stored = [bytes_of(tile.type) for tile, _ in kernel.outputs]
    return Cost(
        # Blocks share nothing: each of them computes and loads its tiles itself.
        total.flops * blocks,
        total.bytes_read * blocks,
        sum(stored, start=_NOTHING) * blocks,
        1,
    )


def step_cost(term: Term, count: Dim) -> Cost:
    """What one block spends on `term`, when the loop runs `count` times."""
    if term.operator is LOAD:
        # A tile that the loop does not split is loaded once, before the loop.
        loops = count if term.parameter("loop") is not None else 1
        return Cost(bytes_read=bytes_of(term.type) * loops)
    # One addition for each element of the tile, in each iteration.
    if term.operator is ACCUMULATE:
        return Cost(product(term.arguments[0].shape) * count)
    # Tiles are in shared memory: nothing moves to or from the device.
    if term.operator in (READ, WRITE) or term.place is Place.ANYWHERE:
        return Cost()
    return Cost(flops_of(term) * (count if term.place in (Place.LOOP, Place.LOOP_REGISTER) else 1))
