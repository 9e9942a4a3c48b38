"""A strategy by its name, as a class and as an object, wherever one is taken."""

from __future__ import annotations

import pytest
from trees import Words

from aiosearch import Search, StrategyError
from aiosearch.strategies import Plan, find_strategy
from aiosearch.strategies.queue import Queue
from aiosearch.testing import check_strategy, simulate


class Forgetful(Queue):
    """Breaks where it begins."""

    def start(self, plan: Plan) -> None:
        raise ZeroDivisionError("by nothing")


@pytest.mark.parametrize("strategy", ["queue", Queue, Queue()], ids=["name", "class", "object"])
async def test_every_door_takes_a_name_a_class_and_an_object(
    strategy: str | type[Queue] | Queue,
) -> None:
    assert isinstance(find_strategy(strategy), Queue)
    assert simulate(strategy, Words(), 2).nodes == Words().nodes
    async with Search(Words(), strategy=strategy, workers=0) as search:
        assert (await search.wait()).statistics.nodes == Words().nodes


def test_options_of_an_object_are_refused() -> None:
    with pytest.raises(StrategyError, match="given by name or as a class"):
        find_strategy(Queue(), {"depth": 3})
    with pytest.raises(StrategyError, match="'Queue' refuses its options"):
        find_strategy(Queue, {"nonsense": 3})


@pytest.mark.parametrize("thing", [None, 3, object()])
def test_what_is_no_strategy_is_refused_with_what_it_lacks(thing: object) -> None:
    lacks = f"'{type(thing).__name__}' is no strategy: it has no api and no start and no handle"
    with pytest.raises(StrategyError, match=lacks):
        find_strategy(thing)  # type: ignore[arg-type]  # what a caller without types passes


def test_what_a_strategy_raises_is_told_with_its_line_and_what_it_was_asked() -> None:
    told = r"Forgetful raised ZeroDivisionError in start: by nothing \(.*test_registry\.py:\d+\)"
    with pytest.raises(StrategyError, match=told):
        simulate(Forgetful, Words(), 2)


async def test_a_strategy_that_fails_its_checks_says_first_what_failed_first() -> None:
    with pytest.raises(ExceptionGroup, match=r"strategy Forgetful fails \d+ of \d+ checks, first"):
        await check_strategy(Forgetful)
