from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from random import Random

import numpy as np
import pytest
from drawn import small
from testkit.random_mugraphs.operators import sizes
from testkit.superoptimizer.kernel_graphs import fusion, leaves

from aiosearch.superoptimizer.build.mugraph import Builder, BuiltKernels
from aiosearch.superoptimizer.enumeration.block_graphs import DerivedBlockGraph
from aiosearch.superoptimizer.enumeration.kernel_graphs import SkeletonKernel
from aiosearch.superoptimizer.enumeration.problem import Fusion
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import Program, ShapeError
from aiosearch.tensor.referee import run

TRIES = 60
SOFTMAX = ("exp", "sub", "div", "matmul", "sum", "max")


def programs(problem: Fusion, random: Random) -> Iterator[BuiltKernels]:
    """Every kernel graph, again and again until each block graph of its kernels was there."""
    for found in leaves(problem):
        ways = [_graphs(problem, kernel) for kernel in found.kernels]
        for way in ways:
            random.shuffle(way)
        rounds = zip(*map(cycle, ways), strict=False)
        for graphs in islice(rounds, max(map(len, ways))):
            yield BuiltKernels(found.kernels, graphs)


def _graphs(problem: Fusion, kernel: SkeletonKernel) -> list[DerivedBlockGraph | None]:
    return [None] if kernel.step >= 0 else list(problem.skeletons.graphs(kernel))


def numbered(builder: Builder, built: BuiltKernels, random: Random) -> Program:
    """The program with random numbers that fit."""
    extents = builder.extents(built)
    for _ in range(TRIES):
        numbers = {name: random.choice(_divisors(extent)) for name, extent in extents.items()}
        try:
            return builder.build(built, numbers)
        except ShapeError:
            continue
    raise AssertionError(f"no numbers fit {extents}")


def _divisors(extent: int) -> list[int]:
    return [number for number in range(1, extent + 1) if not extent % number]


@pytest.mark.parametrize(
    ("name", "space"),
    [
        ("rms_norm", Space(block_operators=8, kernels=2)),
        ("gated_mlp", Space(block_operators=9, kernels=3)),
        ("lora", Space(block_operators=7, kernels=3)),
        ("gqa", Space(block_operators=8, kernels=2)),
        ("moe_gate", Space(block_operators=9, kernels=2, tile=SOFTMAX)),
        ("ntrans", Space(block_operators=9, kernels=2, tile=("add", "mul", "div", "rms_norm"))),
    ],
)
def test_every_program_computes_what_the_reference_does(name: str, space: Space) -> None:
    """By the referee, with whatever numbers, and each block graph of each kernel."""
    reference, random = small(name), Random(name)
    problem = fusion(reference, space)
    generator = np.random.default_rng(0)
    inputs = [generator.uniform(-1, 1, sizes(one)) for one in reference.inputs]
    wanted = run(reference, inputs)
    count = 0
    for built in programs(problem, random):
        program = numbered(problem.builder, built, random)
        for one, two in zip(run(program, inputs), wanted, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)
        assert program.inputs == reference.inputs
        count += 1
    assert count > len(problem.expand(problem.root()))


def test_sizes_are_named_after_what_they_cut() -> None:
    """A grid axis by its label, a loop by its kernel; none for an operator of its own."""
    problem = fusion(small("rms_norm"), Space(block_operators=8, kernels=1))
    looped = [built for built in programs(problem, Random(0)) if "range0" in _sizes(problem, built)]
    assert looped
    assert all(_sizes(problem, one) == {"row0": 6, "column0": 10, "range0": 8} for one in looped)


def _sizes(problem: Fusion, built: BuiltKernels) -> dict[str, int]:
    return problem.builder.extents(built)


def test_without_numbers_a_grid_has_one_block() -> None:
    """And a loop runs once."""
    reference = small("gated_mlp")
    problem = fusion(reference, Space(block_operators=9, kernels=1))
    generator = np.random.default_rng(0)
    inputs = [generator.uniform(-1, 1, sizes(one)) for one in reference.inputs]
    for built in programs(problem, Random(0)):
        (found,) = run(problem.builder.build(built, {}), inputs)
        np.testing.assert_allclose(found, run(reference, inputs)[0], rtol=1e-9)


def test_numbers_that_do_not_fit_are_refused() -> None:
    """What does not divide an axis is a ShapeError."""
    problem = fusion(small("rms_norm"), Space(block_operators=8, kernels=1))
    built = next(programs(problem, Random(0)))
    with pytest.raises(ShapeError):
        problem.builder.build(built, {"row0": 4})
