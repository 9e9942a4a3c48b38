from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from testkit.superoptimizer.kernel_graphs import fusion, walk

from aiosearch.equivalence import verify
from aiosearch.superoptimizer.build.mugraph import BuiltKernels
from aiosearch.superoptimizer.build.thread_fusion import threaded
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import Program
from aiosearch.tensor.mugraph import READ, RESULT, WRITE
from aiosearch.tensor.programs import BUILTINS
from aiosearch.tensor.referee import run

SIZES = {
    "rms_norm": {"row": 4, "feature": 8, "column": 6},
    "gated_mlp": {"row": 4, "feature": 8, "hidden": 6},
    "gqa": {"head": 2, "row": 4, "feature": 6, "key": 8, "value": 4},
    "attention": {"head": 2, "row": 4, "feature": 6, "key": 8, "value": 4},
    "ntrans": {"row": 4, "feature": 8},
}
SPACES = {
    "attention": Space(kernels=2, block_operators=7),
    "ntrans": Space(kernels=2, tile=("add", "mul", "div", "rms_norm")),
}
"""Of what would take seconds, a part."""


def kernels_of(name: str) -> list[Program]:
    """A program of each of the first kernel graphs of one or two kernels."""
    problem = fusion(
        BUILTINS[name].program("f32", **SIZES[name]), SPACES.get(name, Space(kernels=2))
    )
    leaves = (leaf for node in walk(problem) for leaf in problem.solutions(node))
    found = []
    for one in islice(leaves, 12):
        ways = [
            next(problem.skeletons.graphs(own), None) if own.step < 0 else None
            for own in one.kernels
        ]
        built = BuiltKernels(one.kernels, tuple(ways))
        extents = problem.builder.extents(built)
        found.append(problem.builder.build(built, dict.fromkeys(extents, 2)))
    return found


@pytest.mark.parametrize("name", SIZES)
def test_threads_compute_what_the_blocks_did(name: str) -> None:
    random = np.random.default_rng(1)
    for program in kernels_of(name):
        inputs = [random.standard_normal(one.shape) for one in program.inputs]
        for ours, theirs in zip(run(threaded(program), inputs), run(program, inputs), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        assert verify(program, threaded(program), floats=False).status.accepted


def test_between_two_pointwise_operators_there_is_no_tile() -> None:
    """A thread reads what it needs once, and writes once what the chain comes to."""
    (program,) = [
        one
        for one in kernels_of("gated_mlp")
        if sum(term.operator is RESULT for term in one.terms()) == 1
        and all(term.operator.name != "matmul" or term.place != "device" for term in one.terms())
    ]
    body = next(term for term in threaded(program).terms() if term.operator is RESULT)
    steps = [term.operator for term in body.parameter("kernel").body]
    assert steps.count(READ) == 2
    assert steps.count(WRITE) == 1


def test_what_has_no_chain_stays_as_it_is() -> None:
    unthreaded = 0
    for program in kernels_of("rms_norm"):
        names = [term.operator for term in threaded(program).terms()]
        if READ not in names:
            unthreaded += 1
            assert threaded(program) == program
    assert unthreaded
