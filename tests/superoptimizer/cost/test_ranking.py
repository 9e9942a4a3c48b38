from __future__ import annotations

import math
from functools import cache, partial

import pytest
from testkit.superoptimizer.kernel_graphs import fusion, leaves

from aiosearch.devices import device
from aiosearch.superoptimizer.build.mugraph import BuiltKernels
from aiosearch.superoptimizer.cost.ranking import Ranking
from aiosearch.superoptimizer.cost.sizes import fill
from aiosearch.superoptimizer.enumeration.problem import Found, Fusion
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor.programs import builtin

A100 = device("A100")
NAMES = ("rms_norm", "gated_mlp")


@cache
def searched(name: str) -> tuple[Fusion, list[Found]]:
    problem = fusion(builtin(name), Space(block_operators=9, kernels=2))
    return problem, leaves(problem)


@pytest.mark.parametrize("name", NAMES)
def test_the_best_predicted_come_first(name: str) -> None:
    """Each of another kernel graph, and however few are asked for, the first are the same."""
    problem, found = searched(name)
    ranking = Ranking(problem.skeletons, A100)
    every = ranking.best(found, len(found))
    ranks = [one.filling.prediction.rank for one in every]
    assert ranks == sorted(ranks)
    assert len({one.built.kernels for one in every}) == len(every) > 3
    few = [one.filling.prediction.rank for one in ranking.best(found, 3)]
    assert few == ranks[:3]


@pytest.mark.parametrize("name", NAMES)
def test_no_kernel_graph_is_predicted_to_take_less_than_its_bound(name: str) -> None:
    """So that leaving off at the bound leaves nothing better."""
    problem, found = searched(name)
    moved = {one.kernels: one.least_bytes / A100.bytes_per_second for one in found}
    for one in Ranking(problem.skeletons, A100).best(found, len(found)):
        launches = len(one.built.kernels) * A100.launch_seconds
        least = moved[one.built.kernels] + launches
        assert one.filling.prediction.seconds >= least or math.isclose(
            one.filling.prediction.seconds, least, rel_tol=1e-12
        )


def test_a_kernel_graph_gets_the_best_of_its_block_graphs() -> None:
    """No other that one kernel may have is predicted to be faster."""
    problem, _ = searched("gated_mlp")
    (found,) = [one for one in searched("gated_mlp")[1] if len(one.kernels) == 1]
    (best,) = Ranking(problem.skeletons, A100).best([found], 1)
    for graph in problem.skeletons.graphs(found.kernels[0]):
        built = BuiltKernels(found.kernels, (graph,))
        build = partial(problem.builder.build, built)
        (other,) = fill(build, problem.builder.extents(built), A100)
        assert best.filling.prediction.rank <= other.prediction.rank
    assert best.programs == found.programs


def test_a_ranking_may_be_left_off() -> None:
    """What was ranked by then is there."""
    problem, found = searched("rms_norm")
    heard: list[str] = []

    def step(text: str) -> bool:
        heard.append(text)
        return len(heard) < 3

    ranked = Ranking(problem.skeletons, A100).best(found, len(found), step)
    assert len(ranked) == 2
    assert heard[0] == f"ranking 1 of {len(found)} kernel graphs"
