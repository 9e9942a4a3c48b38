"""Figures as CSV and as a drawing."""

from __future__ import annotations

import csv
import io
from xml.etree import ElementTree

from aiosearch.comparing.arms import Arm
from aiosearch.comparing.drawing import MIDDLE, TOP, plot
from aiosearch.comparing.intervals import Interval
from aiosearch.comparing.rows import Row
from aiosearch.comparing.writing import to_csv

ROWS = [
    Row(
        arm=Arm(strategy, "dfs", workers),
        runs=3,
        seconds=Interval(2.0, 1.0, 4.0),
        speedup=Interval(workers * 0.9, 0.5, 1e6),
        efficiency=0.9,
        idle_share=0.1 / workers,
    )
    for strategy in ("queue", "<other>")
    for workers in (1, 2, 4)
]
FAILED = Row(arm=Arm("bad", "dfs", 2), runs=0, trouble="wrong: 3 nodes, not 4", wrong=True)


def test_a_line_of_csv_holds_the_arm_and_the_ends_of_its_intervals() -> None:
    first, *_, last = csv.DictReader(io.StringIO(to_csv([*ROWS, FAILED])))
    assert (first["strategy"], first["workers"]) == ("queue", "1")
    assert [first[name] for name in ("seconds", "seconds_low", "seconds_high")] == [
        "2.0", "1.0", "4.0",
    ]  # fmt: skip
    assert (last["trouble"], last["speedup"], last["seconds_low"]) == (FAILED.trouble, "", "")


def test_a_drawing_has_a_point_for_each_row_in_both_diagrams_and_stays_in_its_frame() -> None:
    drawn = ElementTree.fromstring(plot([*ROWS, FAILED], "a tree & its ways"))
    circles = drawn.findall(".//{*}circle")
    assert len(circles) == 2 * len(ROWS)
    height = float(drawn.attrib["height"])
    assert all(0 < float(circle.attrib["cy"]) < height for circle in circles)
    texts = [text.text for text in drawn.findall(".//{*}text")]
    assert "<other>" in texts
    assert "bad" not in texts


def test_every_interval_is_drawn_with_both_its_ends() -> None:
    drawn = ElementTree.fromstring(plot(ROWS, "a tree"))
    bars = [path.attrib["d"] for path in drawn.findall(".//{*}path") if "V" in path.attrib["d"]]
    assert len(bars) == len(ROWS)
    for bar in bars:
        high, low = (float(part.split("M")[0]) for part in bar[1:].split(" ", 1)[1].split("V"))
        assert bar.count("h8") == 2
        assert TOP < high < low <= MIDDLE


def test_a_drawing_of_nothing_is_still_one() -> None:
    assert ElementTree.fromstring(plot([FAILED], "nothing")).tag.endswith("svg")
