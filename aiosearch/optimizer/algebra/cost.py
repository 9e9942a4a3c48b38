"""The cost estimate of a program on a CPU under XLA: fused operators are cheap, stored results are
not.

The constants are microseconds measured with jax 0.10 on two cores; they put candidates in an order
of trial and decide nothing else.
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
"""A program is an answer where it is estimated to take at most this much of the original's time."""
_NANO = 1e-3
_LAUNCH = 2.0
_EACH = 0.2
"""For each operator: of programs as fast, the shorter one is better."""
_READ = 0.025 * _NANO
_WRITE = 0.07 * _NANO
_FLOP = 0.0045 * _NANO
_SIMPLE = 0.01 * _NANO
_TURNED = 1.4 * _NANO
"""For each element of what is turned around for a product."""
_SHUFFLED = 0.25 * _NANO
"""For each element that is read against its order."""

_SLOW = {"cos": 6.0, "sin": 6.0, "pow": 3.2, "exponential": 3.2, "rsqrt": 1.3}
"""Nanoseconds an element, where it is more than the count of operations says."""
_STORED = frozenset({"matmul", "convolution", "sum", "mean", "max", "min", "fold", "rms_norm"})
_JOINED = frozenset({"concatenate", "stack", "pad"})
_REDUCED = _STORED - {"matmul", "convolution"}


def estimate(program: Program, constant: Collection[int] = ()) -> float:
    """Microseconds of a call; what depends on constant inputs alone lies ready, as it is read."""
    ready = settled(program, constant)
    outputs, needed = set(program.outputs), _stored_for_products(program)
    absorbed = _absorbed(program)
    uses = Counter(argument for term in program.terms() for argument in term.arguments)
    total, read = 0.0, set[Term]()
    for term in program.terms():
        if term.operator in (INPUT, LITERAL) or term in ready:
            continue
        total += _EACH + (0.0 if term in absorbed else _work(term, ready))
        name = term.operator.name
        if name in _STORED or name in _JOINED or term in outputs or term in needed:
            total += _LAUNCH + _bytes(term) * _WRITE
            read.update(_source(argument, ready) for argument in term.arguments)
        elif uses[term] > 1 and not _moves(term):
            total += 0.1 * _bytes(term) * _WRITE
    return total + sum(_bytes(one) for one in read) * _READ


def worth(cost: float, constant: Collection[int]) -> float:
    """What an answer may take, where the original takes so long; by weights little is spared."""
    return cost - 0.1 if constant else WORTH * cost


def least(term: Term, ready: frozenset[Term]) -> float:
    """The microseconds that a term adds to any program that has it, whatever else that has."""
    if term.operator in (INPUT, LITERAL) or term in ready:
        return 0.0
    found = _EACH if named(term, "transpose") else _EACH + _work(term, ready)
    if named(term, *_STORED, *_JOINED):
        found += _LAUNCH + _bytes(term) * _WRITE
    return found


def _absorbed(program: Program) -> set[Term]:
    """What is turned for products alone, which look after it."""
    found = {term for term in program.terms() if rank_swap(term) is not None}
    for term in program.terms():
        if not named(term, "matmul"):
            found.difference_update(term.arguments)
    return found.difference(program.outputs)


def _stored_for_products(program: Program) -> set[Term]:
    """What is computed as the operand of a product, which takes nothing unfinished."""
    found: set[Term] = set()
    for term in program.terms():
        if term.operator.name in ("matmul", "convolution"):
            operands = [_source(argument) for argument in term.arguments]
            found.update(one for one in operands if one.operator not in (INPUT, LITERAL))
    return found


def _source(term: Term, ready: frozenset[Term] = frozenset()) -> Term:
    while term.operator.name in ("reshape", "transpose") and term not in ready:
        term = term.arguments[0]
    return term


def _moves(term: Term) -> bool:
    return term.operator.name in ("reshape", "transpose", "broadcast", "slice", "diagonal", "iota")


def _count(term: Term) -> int:
    return prod(sizes(term))


def _bytes(term: Term) -> int:
    found = bytes_of(term.type)
    assert isinstance(found, int)
    return found


def _work(term: Term, ready: frozenset[Term]) -> float:
    name = term.operator.name
    if name == "matmul":
        return _product(term, ready)
    if name == "transpose":
        return _count(term) * _SHUFFLED if _turns(term) else 0.0
    if name in _REDUCED:
        return _count(term.arguments[0]) * _reduced(term) * _NANO
    if name in _SLOW:
        return _count(term) * _SLOW[name] * _NANO
    if name == "power" and float(term.parameter("exponent")) % 1:
        return _count(term) * _SLOW["pow"] * _NANO
    if _moves(term) or name in _JOINED:
        return 0.0
    shapes = [argument.shape for argument in term.arguments]
    flops = OPERATORS[name].flops(shapes, term.shape, **dict(term.parameters))
    assert isinstance(flops, int)
    return flops * (_FLOP if name == "convolution" else _SIMPLE)


def _reduced(term: Term) -> float:
    """Nanoseconds for each element that is read: less along the last axis."""
    axes: Sequence[int] = dict(term.parameters).get("axes", ())
    return 0.04 if len(term.arguments[0].shape) - 1 in axes else 0.15


def _turns(term: Term) -> bool:
    """Whether elements come in another order."""
    kept = [axis for axis in term.parameter("axes") if term.arguments[0].shape[axis] != 1]
    return kept != sorted(kept)


def _product(term: Term, ready: frozenset[Term]) -> float:
    left = term.arguments[0]
    total = _count(term) * sizes(left)[-1] * 2 * _FLOP
    if left not in ready and rank_swap(left) is not None and _turns(left):
        total += _count(left) * _TURNED
    return total
