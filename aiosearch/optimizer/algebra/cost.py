"""The cost estimate of a program on a CPU under XLA: fused operators are cheap, stored results are
not.

Problem: order thousands of equal programs by time without compiling one. XLA fuses pointwise
operators into the reduction or product that takes them, so that what costs is memory traffic of
what is stored, and arithmetic.

Example: for x and y f32[1024, 1024], `estimate` gives 160 µs for `sum(x * y)`, of which the sum
reads 4 MB of products at `_READ_US_PER_BYTE` (105 µs) and adds 2^20 elements (42 µs); it gives 10.2
ms for `x @ y`, which counts 2^31 operations at `_PRODUCT_US_PER_OPERATION`.

Invariant: `least` of all terms of a program together is at most its `estimate`, for any program
that has these terms: `EnumerationSearch` prunes by that.

Cost: linear in the terms. The constants are microseconds measured with jax 0.10 on two cores of one
machine; they put candidates in an order of trial and decide nothing else: a winner is timed.
benchmarks/algebra.py prints what the orders lead to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from math import prod

from ...tensor import Program, Term
from ...tensor.operator import OPERATORS
from ...tensor.terms import INPUT, LITERAL, bytes_of
from .terms import named, rank_swap, settled, sizes

WORTH = 0.98
"""A program is an answer where it is estimated to take at most this share of the original's time.
"""
_US_PER_NS = 1e-3
"""Microseconds in a nanosecond."""
_LAUNCH_US = 2.0
"""Microseconds for each result that is stored: a loop of its own, and its buffer."""
_OPERATOR_US = 0.2
"""Microseconds for each operator: of two programs that are as fast, the shorter one is better."""
_READ_US_PER_BYTE = 0.025 * _US_PER_NS
"""Microseconds for each byte that a stored result reads."""
_WRITE_US_PER_BYTE = 0.07 * _US_PER_NS
"""Microseconds for each byte of a stored result: it is written, and mostly read by another core."""
_PRODUCT_US_PER_OPERATION = 0.0045 * _US_PER_NS
"""Microseconds for each operation of a matrix product or a convolution."""
_POINTWISE_US_PER_OPERATION = 0.01 * _US_PER_NS
"""Microseconds for each operation of a fused pointwise operator."""
_TRANSPOSED_US_PER_ELEMENT = 1.4 * _US_PER_NS
"""Microseconds for each element of a left operand that XLA transposes before a product."""
_SHUFFLED_US_PER_ELEMENT = 0.25 * _US_PER_NS
"""Microseconds for each element of a transpose, which is read against its order."""

_SLOW_NS_PER_ELEMENT = {"cos": 6.0, "sin": 6.0, "pow": 3.2, "exponential": 3.2, "rsqrt": 1.3}
"""Nanoseconds an element, where it is more than the count of operations says."""
_RUNNING = frozenset({"cumsum", "cummax", "cummin", "scatter_add"})
"""Operators that go through an axis in order, each of whose results is stored."""
_STORED = _RUNNING | {
    *("matmul", "convolution", "sum", "mean", "max", "min", "fold", "rms_norm"),
    *("argmax", "argmin"),
}
"""Operators whose results XLA stores: it fuses into them, and not out of them."""
_JOINED = frozenset({"concatenate", "stack", "pad"})
"""Operators that copy their operands into one stored array."""
_REDUCED = _STORED - {"matmul", "convolution"} - _RUNNING
"""The operators of `_STORED` that read all elements of an operand for few of the result."""


def estimate(program: Program, constant: Collection[int] = ()) -> float:
    """Microseconds of a call of `program`; what depends on the inputs at `constant` alone costs no
    more than to be read."""
    # What is settled is computed once and for all, beforehand: a call finds it as an array.
    ready = settled(program, constant)
    outputs, needed = set(program.outputs), _stored_for_products(program)
    absorbed = _absorbed(program)
    # A term that one operand list has twice counts twice, as in x * x: XLA computes it once there,
    # and the estimate errs on the dear side.
    uses = Counter(argument for term in program.terms() for argument in term.arguments)
    total, read = 0.0, set[Term]()
    for term in program.terms():
        if term.operator in (INPUT, LITERAL) or term in ready:
            continue
        total += _OPERATOR_US + (0.0 if term in absorbed else _work(term, ready))
        name = term.operator.name
        if name in _STORED or name in _JOINED or term in outputs or term in needed:
            total += _LAUNCH_US + _bytes(term) * _WRITE_US_PER_BYTE
            read.update(_source(argument, ready) for argument in term.arguments)
        # XLA computes a fused term again for each of its users, or stores it after all: a tenth of
        # a store lies between the two.
        elif uses[term] > 1 and not _moves(term):
            total += 0.1 * _bytes(term) * _WRITE_US_PER_BYTE
    # A set: what several results read is in a cache the second time.
    return total + sum(_bytes(source) for source in read) * _READ_US_PER_BYTE


def worth(cost: float, constant: Collection[int]) -> float:
    """The most microseconds that an answer may take where the original takes `cost`.

    Where weights are constant, any gain counts: what is made of them beforehand may spare little of
    a call that is short.
    """
    return cost - 0.1 if constant else WORTH * cost


def least(term: Term, ready: frozenset[Term]) -> float:
    """The microseconds that `term` adds to any program that has it, whatever else that has.

    It is a lower bound of its share in `estimate`: a transpose may be absorbed by a product and
    what it is read from may be read by another term too, so that neither is counted.
    """
    if term.operator in (INPUT, LITERAL) or term in ready:
        return 0.0
    total = _OPERATOR_US if named(term, "transpose") else _OPERATOR_US + _work(term, ready)
    if named(term, *_STORED, *_JOINED):
        total += _LAUNCH_US + _bytes(term) * _WRITE_US_PER_BYTE
    return total


def _absorbed(program: Program) -> set[Term]:
    """Swaps of the last two axes that products alone take: a product reads either order."""
    absorbed = {term for term in program.terms() if rank_swap(term) is not None}
    for term in program.terms():
        if not named(term, "matmul"):
            # One other user is enough that the transpose has to be carried out.
            absorbed.difference_update(term.arguments)
    return absorbed.difference(program.outputs)


def _stored_for_products(program: Program) -> set[Term]:
    """Terms that are computed as the operand of a product or a convolution, which take finished
    arrays."""
    stored: set[Term] = set()
    for term in program.terms():
        if term.operator.name in ("matmul", "convolution"):
            operands = [_source(argument) for argument in term.arguments]
            stored.update(
                operand for operand in operands if operand.operator not in (INPUT, LITERAL)
            )
    return stored


def _source(term: Term, ready: frozenset[Term] = frozenset()) -> Term:
    """The array that `term` reads, through reshapes and transposes that nobody has carried out."""
    # A reshape is another view of the same bytes, and a transpose is paid for where it is carried
    # out.
    while term.operator.name in ("reshape", "transpose") and term not in ready:
        term = term.arguments[0]
    return term


def _moves(term: Term) -> bool:
    """Whether XLA fuses `term` into its user at no cost but addresses."""
    return term.operator.name in ("reshape", "transpose", "broadcast", "slice", "diagonal", "iota")


def _count(term: Term) -> int:
    return prod(sizes(term))


def _bytes(term: Term) -> int:
    count = bytes_of(term.type)
    assert isinstance(count, int)
    return count


def _work(term: Term, ready: frozenset[Term]) -> float:
    """Microseconds of arithmetic for `term`, without what is stored and read for it."""
    name = term.operator.name
    if name == "matmul":
        return _product(term, ready)
    if name == "transpose":
        return _count(term) * _SHUFFLED_US_PER_ELEMENT if _reorders(term) else 0.0
    if name in _REDUCED:
        return _count(term.arguments[0]) * _reduced(term) * _US_PER_NS
    if name in _SLOW_NS_PER_ELEMENT:
        return _count(term) * _SLOW_NS_PER_ELEMENT[name] * _US_PER_NS
    # Integer powers are products; any other one is a logarithm and an exponential.
    if name == "power" and float(term.parameter("exponent")) % 1:
        return _count(term) * _SLOW_NS_PER_ELEMENT["pow"] * _US_PER_NS
    if _moves(term) or name in _JOINED:
        return 0.0
    shapes = [argument.shape for argument in term.arguments]
    flops = OPERATORS[name].flops(shapes, term.shape, **dict(term.parameters))
    assert isinstance(flops, int)
    return flops * (
        _PRODUCT_US_PER_OPERATION if name == "convolution" else _POINTWISE_US_PER_OPERATION
    )


def _reduced(term: Term) -> float:
    """Nanoseconds for each element that a reduction reads: along the last axis vectors add up side
    by side."""
    # A norm has no axes: it reduces the last one, but with a square and a root, at the slower rate.
    axes: Sequence[int] = dict(term.parameters).get("axes", ())
    return 0.04 if len(term.arguments[0].shape) - 1 in axes else 0.15


def _reorders(term: Term) -> bool:
    """Whether a transpose changes the order of elements in memory; axes of size one do not."""
    # Moving an axis of size one moves no element.
    order = [axis for axis in term.parameter("axes") if term.arguments[0].shape[axis] != 1]
    return order != sorted(order)


def _product(term: Term, ready: frozenset[Term]) -> float:
    """Microseconds of a matrix product, with that of transposing a left operand, whose rows XLA
    wants contiguous."""
    left = term.arguments[0]
    total = _count(term) * sizes(left)[-1] * 2 * _PRODUCT_US_PER_OPERATION
    # The kernel of XLA's product reads rows of the left factor; a transposed right factor it takes
    # as it is.
    if left not in ready and rank_swap(left) is not None and _reorders(left):
        total += _count(left) * _TRANSPOSED_US_PER_ELEMENT
    return total
