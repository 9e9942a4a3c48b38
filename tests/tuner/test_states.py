"""The state of a search: what was measured, while the next points are proposed beside it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from aiosearch.tuner import Measurement, Sampler, SearchSpace, SearchState
from aiosearch.tuner.search.proposals import BestFirstProposer
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
