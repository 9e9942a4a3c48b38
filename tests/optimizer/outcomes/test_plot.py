"""The chart of a report."""

from __future__ import annotations

import re

from answers import answer
from reports import TRIED

from aiosearch.optimizer.outcomes.evidence import Tried
from aiosearch.optimizer.outcomes.plot import plot, times_chart
from aiosearch.optimizer.outcomes.report import Found, Report


def test_bars_are_named_whole_and_say_what_the_headline_does() -> None:
    names = [f"scale after the product, 2 fused kernels, W packed ({at})" for at in (1, 2)]
    alike = [Tried(name, 3e-4, 2.5, low=2.9e-4, high=3.1e-4) for name in names]
    found = Found(answer(evidence={"speedup": 8.0}), False, (*TRIED, *alike))
    drawing = times_chart(found)
    for name in names:
        assert f">{name}<" in drawing
    assert "one fused kernel, W packed (not taken)" in drawing
    assert "90 us, 8.00x" in drawing
    assert str(Report((found,), (), 1.0)).startswith("trace_of_product: 8.00 times as fast")


def test_a_long_name_goes_on_in_the_next_line_and_moves_what_is_below() -> None:
    name = f"reciprocal for a division, {', '.join(f'x{at}' for at in range(40))} transposed"
    found = Found(answer(), False, (*TRIED, Tried(name, 3e-4, 2.5, low=2.9e-4, high=3.1e-4)))
    drawing = times_chart(found)
    lines = re.findall(r'<text x="10.0" y="([\d.]+)"[^>]*>([^<]*)<', drawing)
    assert name in " ".join(words for _, words in lines)
    assert max(len(words) for _, words in lines) <= 100
    places = [float(y) for y, _ in lines]
    assert places == sorted(set(places))


def test_every_bar_and_its_whisker_fit() -> None:
    found = Found(answer(), False, TRIED)
    drawing = plot(Report((found,), (), 1.0))
    width = float(re.search(r'viewBox="0 0 (\d+)', drawing)[1])  # type: ignore[index]  # it is there
    bars = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawing)
    assert bars
    assert all(float(x) + float(wide) < width for x, wide in bars)
