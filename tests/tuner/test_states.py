"""The state of a search: what was measured, while the next points are proposed beside it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from aiosearch.tuner import Measurement, Sampler, SearchSpace, SearchState
from aiosearch.tuner.search.proposals import BestFirstProposer


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
