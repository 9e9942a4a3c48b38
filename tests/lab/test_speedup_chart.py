"""The drawing of a comparison: its axis is that of the means."""

from __future__ import annotations

import re

from aiosearch.lab.arms import Arm
from aiosearch.lab.rows import ArmRow, Interval
from aiosearch.lab.speedup_chart import plot


def row(workers: int, speedup: Interval) -> ArmRow:
    arm = Arm("queue", "depth-first", workers)
    return ArmRow(arm=arm, runs=2, seconds=Interval(1.0), speedup=speedup, idle_share=0.1)


def test_the_wide_interval_of_two_rounds_does_not_flatten_the_lines() -> None:
    drawn = plot([row(1, Interval(1.0)), row(2, Interval(1.9, 0.1, 36.0))], "two rounds")
    labels = [float(label) for label in re.findall(r'text-anchor="end">([\d.]+)<', drawn)]
    assert max(labels) <= 4.0
