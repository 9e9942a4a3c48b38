from __future__ import annotations

from functools import cache
from math import inf, prod

import pytest
from testkit.superoptimizer.kernel_graphs import fusion, leaves, walk

from aiosearch.superoptimizer.derive.derivations import Scope
from aiosearch.superoptimizer.enumeration.kernel_graphs import Skeleton
from aiosearch.superoptimizer.enumeration.problem import Found, Fusion
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import Program, apply, tensor
from aiosearch.tensor.programs import builtin

NAMES = ("rms_norm", "gated_mlp", "gqa", "lora")


@cache
def searched(name: str) -> tuple[Fusion, list[Found]]:
    problem = fusion(builtin(name), Space(block_operators=8, kernels=2))
    return problem, leaves(problem)


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_graph_comes_up_once(name: str) -> None:
    """Whatever the order in which its tensors got their kernels."""
    _, found = searched(name)
    assert found
    assert len({frozenset(one.kernels) for one in found}) == len(found)


@pytest.mark.parametrize("name", NAMES)
def test_kernels_compute_what_is_needed_from_what_is_there(name: str) -> None:
    """In the order in which they are given, within the space, nothing of theirs unused."""
    problem, found = searched(name)
    targets = set(problem.tables.targets)
    for one in found:
        there = set(problem.tables.available)
        for kernel in one.kernels:
            assert set(kernel.loads) <= there
            assert not set(kernel.tensors) & there
            there |= set(kernel.tensors)
        used = {load for kernel in one.kernels for load in kernel.loads}
        assert targets <= there
        assert there - problem.tables.available <= used | targets
        assert len(one.kernels) <= problem.space.kernels
        assert all(problem.tables.classes[tensor].zone is Scope.DEVICE for tensor in there)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_stands_for_all_its_block_graphs(name: str) -> None:
    """Each comes up once, loads what the kernel loads, and they are as many as were counted."""
    problem, found = searched(name)
    for one in found:
        counts = []
        for kernel in one.kernels:
            graphs = list(problem.skeletons.graphs(kernel)) if kernel.step < 0 else [None]
            assert len(set(graphs)) == len(graphs)
            assert all(graph is None or graph.loads == kernel.loads for graph in graphs)
            counts.append(len(graphs))
        assert one.programs == prod(counts)


def test_no_node_has_more_kernels_than_there_may_be() -> None:
    """Nor more that are made for it."""
    space = Space(block_operators=7, kernels=3, custom_kernels=1)
    for node in walk(fusion(builtin("gqa"), space)):
        assert len(node.kernels) <= 3
        assert sum(kernel.step < 0 for kernel in node.kernels) <= 1


def test_outputs_may_come_from_one_kernel() -> None:
    """A kernel of two outputs, and two of one, are graphs of their own."""
    x = tensor("X", "f16", (16, 32), ("row", "column"))
    program = Program("both", (x,), (apply("exp", x), apply("sum", x, axes=(1,), keep=True)))
    found = leaves(fusion(program, Space(block_operators=5, kernels=2)))
    outputs = [sorted(len(kernel.tensors) for kernel in one.kernels) for one in found]
    assert [2] in outputs
    assert [1, 1] in outputs
    together = leaves(fusion(program, Space(block_operators=5, kernels=1)))
    assert len(together) == outputs.count([2])
    apart = leaves(fusion(program, Space(block_operators=5, kernels=2, block_outputs=1)))
    assert len(apart) == sum(max(own) == 1 for own in outputs)


@pytest.mark.parametrize("name", NAMES)
def test_no_node_ends_with_fewer_kernels_than_it_lacks(name: str) -> None:
    """What is needed is one more output of a kernel that has room, or has one of its own."""
    problem, _ = searched(name)

    def fewest(node: Skeleton) -> float:
        if not node.needed:
            return len(node.kernels)
        return min(map(fewest, problem.expand(node)), default=inf)

    for node in walk(problem):
        lacking = problem.skeletons.lacking(node.kernels, node.needed)
        assert (lacking > 0) <= bool(node.needed)
        assert len(node.kernels) + lacking <= fewest(node)
    assert problem.skeletons.lacking((), problem.root().needed) == 1
