"""A kernel graph with some part of it as a custom kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random

from testkit.random_mugraphs.custom_kernels import ImpossibleError, Lowering
from testkit.random_mugraphs.kernel_schedules import schedule
from testkit.random_mugraphs.regions import Region, region

from aiosearch.tensor import Kernel, Program, ShapeError, Term
from aiosearch.tensor.analysis.substitution import substituted

MOST_OUTPUTS = 2

_TRIES = 8


def kernels(program: Program) -> list[Kernel]:
    """The custom kernels of a program."""
    results = (term for term in program.terms() if term.operator.name == "result")
    return list(dict.fromkeys(term.parameter("kernel") for term in results))


def operators(kernel: Kernel) -> list[Term]:
    """The operators of a block graph: what it loads, what it does, what it accumulates."""
    return [term for term in kernel.body if term.arguments]


def fused(program: Program, random: Random, most: int, least: int = 1) -> Program | None:
    """The program with some part of it as a custom kernel, or None where no try worked.

    The part is of at least `least` operators, and the kernel's block graph of at most `most`.
    """
    for _ in range(_TRIES):
        own = region(program, random, least, most)
        if own is not None and own.fewest <= most:
            for found in _as_kernels(program, own, random, least):
                if all(len(operators(kernel)) <= most for kernel in kernels(found)):
                    return found
    return None


def _as_kernels(program: Program, own: Region, random: Random, least: int) -> Iterator[Program]:
    """The program with a kernel for a region, or for a little less, on schedules that work."""
    plan = schedule(own, random)
    for again in range(_TRIES):
        with suppress(ImpossibleError, ShapeError):
            if len(own.outputs) <= MOST_OUTPUTS:
                yield substituted(program, Lowering(own, plan, random).changes())
        less = own.without_last()
        if len(less.terms) >= least and random.random() < 0.2:
            own, plan = less, schedule(less, random)
        else:
            plan = schedule(own, random) if again < _TRIES // 2 else plan.without(random)
