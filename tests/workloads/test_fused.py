from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, get_type_hints

import msgspec
import pytest

from aiosearch import solve
from aiosearch.superoptimizer import DeviceError
from aiosearch.workloads.fused import Fused

SMALL = Fused(block_operators=5)


def test_values_travel(walk: Callable[[Any], Iterator[Any]]) -> None:
    """Nodes, solutions and the problem itself come back from msgpack as they were."""
    hints = [get_type_hints(getattr(Fused, name)) for name in ("root", "solutions")]
    node_type, solutions_type = (hint["return"] for hint in hints)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(SMALL), type=Fused)
    for node in islice(walk(SMALL), 150):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(node), type=node_type) == node
        found = SMALL.solutions(node)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=solutions_type) == found
        assert again.expand(node) == SMALL.expand(node)
        assert again.bound(node) == SMALL.bound(node)
    assert again == SMALL


def test_all_programs_are_priced_and_few_where_a_bound_cuts() -> None:
    """Depth first every program is a solution; by default only what may be the best is seen."""
    every = solve(SMALL, workers=0, order="depth-first", cache=None)
    best = solve(SMALL, workers=0, cache=None)
    assert best.best is not None
    assert best.best.seconds == min(one.seconds for one in every.solutions)
    assert len(every.solutions) > 20
    assert best.statistics.nodes < every.statistics.nodes / 4


def test_a_device_that_nobody_described_is_refused() -> None:
    with pytest.raises(DeviceError, match="no device 'H9'"):
        Fused(device="H9").root()
