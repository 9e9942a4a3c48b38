"""The cheapest way, with no more prices than it takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from testkit.programs.operator_graphs import called, model, program, traffic

from aiosearch.superoptimizer.compose.partition import PartitionError, partition
from aiosearch.superoptimizer.compose.subprograms import convex
from aiosearch.tensor import Program, apply, tensor

X = tensor("X", "f32", (4, 6))
MOST = 4


def noted(asked: list[Program]) -> Callable[[Program], float]:
    """Prices that are written down."""

    def ask(piece: Program) -> float:
        asked.append(piece)
        return traffic(piece)

    return ask


def test_a_bound_saves_prices() -> None:
    """One that is exact leaves only those to ask for that are chosen."""
    asked: list[Program] = []
    whole = model(2)
    plan = partition(whole, noted(asked), MOST, least=traffic)
    assert set(asked) == {piece.program for piece in plan.pieces}
    blind: list[Program] = []
    assert partition(whole, noted(blind), MOST).total == plan.total
    assert len(asked) < len(blind) <= len({one.program for one in convex(whole, MOST)})


def test_pieces_without_a_price_are_not_used() -> None:
    """Where an operator is in no other, there is no plan."""
    whole = program(apply("exp", apply("tanh", X)))
    plan = partition(whole, lambda piece: 1.0 if len(called(piece)) == 1 else None, 2)
    assert [called(piece.program) for piece in plan.pieces] == [["tanh"], ["exp"]]
    with pytest.raises(PartitionError, match="no pieces with a price"):
        partition(whole, lambda piece: None if "exp" in called(piece) else 1.0, 2)


def test_a_bound_above_a_price_is_an_error() -> None:
    """It could have cost the best plan."""
    with pytest.raises(PartitionError, match=r"costs 1.0, and was to cost 2.0 at least"):
        partition(program(apply("exp", X)), lambda piece: 1.0, 2, least=lambda piece: 2.0)


def test_when_time_is_over_the_other_prices_are_had_at_once() -> None:
    """The plan is the cheapest of what has a price then."""
    whole = model(2)
    asked: list[Program] = []
    heard: list[str] = []

    def going(text: str) -> bool:
        heard.append(text)
        return "prices" not in text

    plan = partition(whole, noted(asked), MOST, going=going)
    assert heard.count("prices of a partition") == 1
    assert len(asked) == len(set(asked)) == len({piece.program for piece in convex(whole, MOST)})
    assert plan.total == partition(whole, traffic, MOST).total


@pytest.mark.parametrize("loop", ["pieces", "boundaries", "stages"])
def test_without_time_for_a_price_there_is_no_plan(loop: str) -> None:
    """Every loop that grows with the program asks whether it may go on."""
    with pytest.raises(PartitionError, match=f"stopped at the {loop}"):
        partition(model(2), traffic, MOST, going=lambda text: loop not in text)
