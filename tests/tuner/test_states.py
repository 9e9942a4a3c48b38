"""The state of a search: what was measured, while the next points are proposed beside it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from aiosearch.tuner import Measurement, Sampler, SearchSpace, SearchState, Trace
from aiosearch.tuner.search.proposals import BestFirstProposer, EvolutionProposer, apart
from aiosearch.tuner.search.states import listed


@pytest.fixture
def many_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("many_switches")
def test_points_may_be_measured_while_others_are_proposed() -> None:
    def program(s: Sampler) -> None:
        s.integer("at", 0, 3999)

    space = SearchSpace(program)
    state = SearchState(space, BestFirstProposer())
    done = [Measurement(space.replay({"at": at}), 1.0 + at) for at in range(4000)]
    for entry in done[:2000]:
        state.tell(entry)

    def measure() -> None:
        for entry in done[2000:]:
            state.tell(entry)
            time.sleep(0)  # lets the other thread go on

    measuring = threading.Thread(target=measure)
    measuring.start()
    while measuring.is_alive():
        assert len(state.fastest(4)) == 4
    measuring.join()
    assert len(state.measured) == 4000


def test_a_space_of_millions_is_not_walked_to_learn_that_it_is_too_large() -> None:
    """Of 10^12 beginnings requirements let hardly any be a point, so that no list fills up."""
    runs = 0

    def digits(s: Sampler) -> None:
        nonlocal runs
        runs += 1
        drawn = [s.integer(f"digit{at}", 0, 9) for at in range(12)]
        names = tuple(f"digit{at}" for at in range(12))
        s.require(sum(drawn) == 108, "all are nines", reads=names)

    assert listed(SearchSpace(digits)) is None
    assert runs < 2000


def test_a_space_of_few_points_is_listed_whatever_requirements_turn_away() -> None:
    def digits(s: Sampler) -> None:
        drawn = [s.integer(f"digit{at}", 0, 9) for at in range(4)]
        names = tuple(f"digit{at}" for at in range(4))
        s.require(sum(drawn) == 35, "one is an eight", reads=names)

    points = listed(SearchSpace(digits))
    assert points is not None
    assert len(points) == 4


def test_points_lie_apart_by_how_many_sites_differ_and_by_how_much() -> None:
    def program(s: Sampler) -> None:
        s.integer("block", 16, 256, base=2)
        if s.fork("form", ("plain", "staged")) == "staged":
            s.tile("rows", 64, parts=2)

    space = SearchSpace(program)

    def point(block: int, rows: tuple[int, int] | None = None) -> Trace:
        form = "plain" if rows is None else "staged"
        return space.replay({"block": block, "form": form, "rows": rows})

    assert apart(point(16), point(16)) == 0
    assert apart(point(16), point(32)) == (1 + 1 / 4) / 2
    assert apart(point(16), point(256)) == 1
    assert apart(point(16), point(16, (64, 1))) == 2  # another branch, and a site that it has alone
    assert apart(point(16, (64, 1)), point(16, (8, 8))) == (1 + 1 / 2) / 2


def test_values_without_order_differ_or_do_not() -> None:
    def program(s: Sampler) -> None:
        s.location("at", ("root", "rows", "columns"))
        s.permutation("order", ("m", "n", "k"))

    space = SearchSpace(program)
    first, *others = space.points()
    assert [apart(first, point) for point in others[:2]] == [1, 1]
    assert apart(first, space.replay({"at": "columns", "order": ("k", "n", "m")})) == 2


def test_the_first_points_of_a_search_come_near_every_corner() -> None:
    def program(s: Sampler) -> None:
        for name in ("rows", "columns", "depth"):
            s.integer(name, 1, 256, base=2)

    space = SearchSpace(program)
    for seed in range(10):
        state = SearchState(space, EvolutionProposer(), seed=seed)
        points = [trace for _ in range(2) for trace in state.ask(4)]
        for name in ("rows", "columns", "depth"):
            drawn = [trace.decisions[name] for trace in points]
            assert min(drawn) <= 2, (seed, name)
            assert max(drawn) >= 128, (seed, name)
