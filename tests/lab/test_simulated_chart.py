"""Speed-ups are drawn where they are, however low or high."""

from __future__ import annotations

import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from aiosearch.lab.simulated_chart import MOST_LINES, Curves, plot

TOP, MIDDLE, LOWER, BOTTOM = 56.0, 330.0, 386.0, 576.0


def heights(curves: Curves) -> list[float]:
    """Those of all points: of each way the upper ones, and then the lower ones."""
    drawn = ElementTree.fromstring(plot(curves, "a tree"))
    return [float(point.attrib["cy"]) for point in drawn.iterfind(".//{*}circle")]


def scale(curves: Curves) -> dict[str, float]:
    """The lines across the speed-ups, with their heights."""
    drawn = ElementTree.fromstring(plot(curves, "a tree"))
    texts = drawn.iterfind(".//{*}text[@text-anchor='end']")
    found = [(str(text.text), float(text.attrib["y"]) - 4) for text in texts]
    return {told: y for told, y in found if y <= MIDDLE}


def test_each_doubling_of_a_speedup_lies_as_far_above_the_last() -> None:
    upper = heights({"queue": [(1, 0.25), (2, 0.5), (4, 1.0), (8, 2.0)]})[:4]
    steps = [low - high for low, high in pairwise(upper)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2)
    assert steps[0] > 10


def test_a_speedup_below_one_lies_between_its_lines() -> None:
    curves = {"queue": [(2, 0.75), (4, 0.75)]}
    drawn = scale(curves)
    share = (drawn["1/2"] - heights(curves)[0]) / (drawn["1/2"] - drawn["2"])
    assert share == pytest.approx(math.log2(0.75 / 0.5) / 2, abs=0.01)


@pytest.mark.parametrize("speedup", [0.001, 0.75, 3.0, 1000.0])
def test_every_point_is_within_its_diagram_and_its_lines_can_be_told_apart(speedup: float) -> None:
    curves = {"queue": [(2, speedup), (65536, speedup)]}
    (one, two), (three, four) = heights(curves)[:2], heights(curves)[2:]
    assert all(TOP <= y <= MIDDLE for y in (one, two))
    assert all(LOWER <= y <= BOTTOM for y in (three, four))
    assert len(scale(curves)) <= MOST_LINES + 1
