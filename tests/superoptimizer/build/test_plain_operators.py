from __future__ import annotations

import pytest
from testkit.superoptimizer.kernel_graphs import fusion, leaves

from aiosearch.equivalence import verify
from aiosearch.superoptimizer.algebra.program_reader import read
from aiosearch.superoptimizer.build.mugraph import BuiltKernels
from aiosearch.superoptimizer.build.plain_operators import plain
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import Program
from aiosearch.tensor.mugraph import LOAD, RESULT
from aiosearch.tensor.programs import builtin


def of_one_kernel(name: str) -> list[Program]:
    problem = fusion(builtin(name), Space(kernels=1))
    (found,) = [one for one in leaves(problem) if one.kernels[0].step < 0]
    (kernel,) = found.kernels
    graphs = problem.skeletons.graphs(kernel)
    return [problem.builder.build(BuiltKernels(found.kernels, (graph,)), {}) for graph in graphs]


@pytest.mark.parametrize("name", ["rms_norm", "gated_mlp", "lora", "gqa"])
def test_what_kernels_compute_is_proved_equal_without_their_blocks(name: str) -> None:
    """And nothing of a block is left."""
    reference = read(builtin(name))
    found = {plain(program, reference) for program in of_one_kernel(name)} - {None}
    assert found
    for one in found:
        assert one is not None
        assert not any(term.operator in (LOAD, RESULT) for term in one.terms())
        assert verify(builtin(name), one, floats=False).status.accepted


def test_the_weights_of_an_adapter_can_be_added_first() -> None:
    """X·(W + A·B) is among what one kernel of lora computes."""
    reference = read(builtin("lora"))
    found = [plain(program, reference) for program in of_one_kernel("lora")]
    wanted = ["matmul", "add", "matmul"]
    spelled = [
        [term.operator.name for term in one.terms() if term.arguments] for one in found if one
    ]
    assert wanted in spelled


def test_kernels_that_share_out_a_sum_are_plain_where_they_compute_the_same() -> None:
    """A grid that leaves parts to a second kernel has no counterpart without blocks but its sum."""
    program = builtin("gqa")
    problem = fusion(program, Space(kernels=2))
    shared = [leaf for leaf in leaves(problem) if any(len(k.tensors) > 1 for k in leaf.kernels)]
    plain_programs = 0
    for leaf in shared:
        graphs = [next(problem.skeletons.graphs(kernel), None) for kernel in leaf.kernels]
        kernels = problem.builder.build(BuiltKernels(leaf.kernels, tuple(graphs)), {})
        unblocked = plain(kernels, problem.tables.reference)
        if unblocked is not None:
            plain_programs += 1
            assert verify(program, unblocked, floats=False).status.accepted
    assert plain_programs
