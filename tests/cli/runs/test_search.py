from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aiosearch import Limits
from aiosearch.checks import VerifierStatistics
from aiosearch.cli.runs.search import higher, resume_command
from aiosearch.statistics import Statistics

ASKED = msgspec.convert(
    dict.fromkeys(VerifierStatistics.__struct_fields__, 0) | {"checks": 10}, VerifierStatistics
)


def used(**figures: Any) -> Statistics:
    """The figures of a search that did nothing else."""
    nothing = dict.fromkeys(Statistics.__struct_fields__, 0) | {"workers": (), "checks": None}
    return Statistics(**nothing | figures)


@pytest.mark.parametrize(
    ("limits", "figures", "raised"),
    [
        (Limits(nodes=100, solutions=5), {"nodes": 100, "solutions": 2}, {"nodes": "200"}),
        (Limits(nodes=100), {"nodes": 390}, {"nodes": "500"}),
        (Limits(seconds=60), {"seconds": 60.02}, {"seconds": "120"}),
        (Limits(seconds=0.1), {"seconds": 0.32}, {"seconds": "0.4"}),
        (Limits(memory=2 * 10**9, nodes=100), {"nodes": 7}, {"memory": "4GB"}),
        (Limits(memory=2 * 10**9, checks=10), {"checks": ASKED}, {}),
    ],
)
def test_the_limit_that_was_reached_is_raised(
    limits: Limits, figures: dict[str, Any], raised: dict[str, str]
) -> None:
    """By as much again and no other one; that of z3's questions begins anew in each run."""
    assert higher(limits, used(**figures)) == raised


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["search", "--nodes", "5", "--resume"], "search --nodes 10 --resume"),
        (["search", "--nodes=5"], "search --nodes=10 --resume"),
        (["search", "--journal", "a b"], "search --journal 'a b' --nodes 10 --resume"),
    ],
)
def test_a_limit_is_changed_where_it_stands(argv: list[str], told: str) -> None:
    assert resume_command(argv, {"nodes": "10"}) == f"aiosearch {told}"
