"""Cost models: what they learn, and how well they rank what they have not seen."""

from __future__ import annotations

import math
from random import Random

import pytest

from aiosearch.tuner import CostModel, Sampler, SearchSpace, Trace, TunerError, rank_correlation
from aiosearch.tuner.search.models import FEWEST_SAMPLES, BoostedTrees


def program(s: Sampler) -> None:
    s.integer("block", 1, 256, base=2)
    s.integer("stages", 1, 8)
    s.categorical("form", ("row", "column"))


def seconds(trace: Trace) -> float | None:
    block, stages = trace.decisions["block"], trace.decisions["stages"]
    if block * stages > 1024:
        return None
    slow = abs(math.log2(block / 32)) + 0.3 * abs(stages - 4)
    return float(1e-3 * 1.5**slow * (2.0 if trace.decisions["form"] == "column" else 1.0))


def kinds() -> list[str]:
    from importlib.util import find_spec

    return ["trees", *(["lightgbm"] if find_spec("lightgbm") else [])]


@pytest.mark.parametrize("kind", kinds())
def test_a_model_ranks_points_that_it_has_not_seen(kind: str) -> None:
    space = SearchSpace(program)
    seen = [space.sample(Random(seed)) for seed in range(60)]
    unseen = [trace for trace in space.points() if seconds(trace) is not None]
    model = CostModel(kind)
    model.fit(seen, [seconds(trace) for trace in seen])
    correlation = rank_correlation(
        model.predict(unseen), [seconds(trace) or 0.0 for trace in unseen]
    )
    assert correlation is not None
    assert correlation > 0.8


def test_a_model_keeps_away_from_what_failed() -> None:
    space = SearchSpace(program)
    points = list(space.points())
    model = CostModel("trees")
    model.fit(points, [seconds(trace) for trace in points])
    failed = [trace for trace in points if seconds(trace) is None]
    ran = [trace for trace in points if seconds(trace) is not None]
    assert len(failed) >= 4
    assert min(model.predict(failed)) > max(model.predict(ran)) - 1


def test_too_few_samples_teach_nothing() -> None:
    space = SearchSpace(program)
    points = [space.sample(Random(seed)) for seed in range(FEWEST_SAMPLES - 1)]
    model = CostModel("trees")
    model.fit(points, [seconds(trace) for trace in points])
    assert not model.ready
    assert model.predict(points) == [0.0] * len(points)


def test_boosted_trees_learn_a_step() -> None:
    np = pytest.importorskip("numpy")
    rows, targets = np.arange(40.0)[:, None], np.repeat([1.0, 5.0], 20)
    trees = BoostedTrees()
    trees.fit(rows, targets)
    assert abs(trees.predict(rows) - targets).max() < 0.05


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ([1, 2, 3], [10, 20, 90], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 1, 2, 2], [1, 1, 2, 2], 1.0),
    ],
)
def test_rank_correlation(first: list[float], second: list[float], wanted: float) -> None:
    assert rank_correlation(first, second) == pytest.approx(wanted)


def test_what_tells_nothing_apart_has_no_rank_correlation() -> None:
    assert rank_correlation([1, 2, 3], [5, 5, 5]) is None


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(TunerError, match="auto, lightgbm, trees"):
        CostModel("forest")
