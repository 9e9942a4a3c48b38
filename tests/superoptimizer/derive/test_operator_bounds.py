from __future__ import annotations

from functools import cache

import pytest
from testkit.superoptimizer.kernel_graphs import fusion

from aiosearch.superoptimizer.derive.derivations import Scope
from aiosearch.superoptimizer.derive.operator_bounds import FAR, OperatorBounds
from aiosearch.superoptimizer.enumeration.problem import Fusion
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor.programs import builtin

NAMES = ("rms_norm", "lora", "gqa")


@cache
def needs(name: str) -> tuple[Fusion, OperatorBounds]:
    problem = fusion(builtin(name), Space(block_operators=7))
    return problem, OperatorBounds(problem.tables)


@pytest.mark.parametrize("name", NAMES)
def test_no_block_graph_does_with_less(name: str) -> None:
    """It has what every way goes through, nothing that none does, and operators enough."""
    problem, found = needs(name)
    blocks = problem.skeletons.blocks
    stores = [step.operands for ways in problem.tables.steps for step in ways]
    seen = 0
    for outputs in stores:
        if len(outputs) != 1 or problem.tables.classes[outputs[0]].zone is Scope.DEVICE:
            continue
        (tile,) = outputs
        for loads, count in blocks.counts(outputs, 2).items() if found.sizes[tile] < FAR else ():
            for graph in blocks.graphs(outputs, loads) if count < 50 else ():
                own = sum(1 << number for number, _ in graph.steps)
                assert found.always[tile] & ~own == 0
                assert own & ~(found.below[tile] | 1 << tile) == 0
                assert found.sizes[tile] <= len(graph.steps)
                seen += 1
    assert seen > 100


@pytest.mark.parametrize("name", NAMES)
def test_inputs_need_no_kernel_and_outputs_one_at_least(name: str) -> None:
    """All of these programs can be one kernel."""
    problem, found = needs(name)
    assert {found.kernels[one] for one in problem.tables.available} == {0}
    assert [found.kernels[one] for one in problem.tables.targets if one is not None] == [1]
