"""The picture of a search: what it measured, and numbers to read it by."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from aiosearch.tuner import Measurement, Sampler, SearchSpace, TuningRecord, TuningReport
from aiosearch.tuner.pictures import picture


def program(s: Sampler) -> None:
    s.integer("block", 1, 64, base=2)


def report(seconds: dict[int, float | None], predicted: float | None = None) -> TuningReport:
    space = SearchSpace(program)
    entries = tuple(
        Measurement(
            space.replay({"block": block}),
            spent,
            "" if spent else "numbers",
            predicted=None if predicted is None or spent is None else math.log(predicted * spent),
        )
        for block, spent in seconds.items()
    )
    record = TuningRecord(
        kernel="k", arguments=("f32[64]",), device="d", configuration={}, decisions={}
    )
    return TuningReport(record, entries)


def ticks(drawing: str) -> list[str]:
    return re.findall(r'class="tick"[^>]*>([^<]*)<', drawing)


@pytest.mark.parametrize("spread", [1.001, 1.3, 40.0, 1e7])
def test_every_axis_has_numbers_however_near_the_times_are(spread: float) -> None:
    drawing = picture(report({1: 3e-4 * spread, 2: 3e-4, 4: 3.1e-4}, predicted=1.2))
    ElementTree.fromstring(drawing)
    labels = ticks(drawing)
    assert {"1", "3"} <= set(labels)
    assert sum(label.endswith((" s", "ms", "us", "ns")) for label in labels) >= 4


def test_a_point_that_was_turned_away_is_there_with_its_reason() -> None:
    drawing = picture(report({1: 2e-3, 2: None, 4: 1e-3}))
    assert drawing.count('class="timed"') == 2
    assert drawing.count('class="rejected"') == 1
    assert "numbers" in drawing


def test_a_search_that_timed_nothing_is_said() -> None:
    assert "nothing was timed" in picture(report({1: None}))


def test_times_within_one_power_of_ten_have_round_numbers() -> None:
    labels = ticks(picture(report({1: 1.6e-3, 2: 4.5e-3})))
    assert {"2 ms", "3 ms", "4 ms"} <= set(labels)
