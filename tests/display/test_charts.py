"""Charts: what every SVG of the project is put together from."""

from __future__ import annotations

import doctest
from xml.etree import ElementTree

import pytest

from aiosearch.display import charts


def test_the_examples_of_the_module_hold() -> None:
    outcome = doctest.testmod(charts)
    assert outcome.attempted
    assert not outcome.failed


def test_a_document_of_every_part_is_xml_whatever_its_words() -> None:
    points = [(0.0, 1.0), (2.0, 3.0)]
    parts = [
        charts.text(1, 2, "<a & b>"),
        charts.rule(0, 0, 1, 1),
        charts.line(points, charts.INK),
        charts.dashed(points),
        *charts.dots(points, charts.INK),
        charts.error_bar(1, 2, 3, charts.INK),
    ]
    root = ElementTree.fromstring(charts.document(10, 20, parts))
    assert len(list(root)) == 1 + len(parts)
    assert root.get("viewBox") == "0 0 10 20"


@pytest.mark.parametrize("most", [0.03, 1.0, 7.9, 64.0, 1e6])
def test_ticks_are_few_and_reach_nearly_to_the_end(most: float) -> None:
    values = charts.ticks(most)
    assert 4 <= len(values) <= 11
    assert values[0] == 0.0
    assert values[-1] <= most < values[-1] + 2 * (values[1] - values[0])
