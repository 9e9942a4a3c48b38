from __future__ import annotations

import pytest

from aiosearch.cli.output.units import cost, count, duration, of, parse_size, short, size


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 workers"), (1, "1 worker"), (2, "2 workers"), (1234, "1,234 workers")],
)
def test_one_of_a_kind_has_no_plural(number: int, text: str) -> None:
    assert of(number, "worker") == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (950, "950"), (1234, "1.23k"), (98_200, "98.2k"), (1.2e6, "1.2M"), (3e12, "3T")],
)
def test_count(number: float, text: str) -> None:
    """Counts are written with three digits."""
    assert count(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.04s"), (12.44, "12.4s"), (59.96, "0m 59s"), (192, "3m 12s"), (3840, "1h 04m")],
)
def test_duration(seconds: float, text: str) -> None:
    """Durations are written in the unit that people use."""
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(8231.0, "8231"), (0.1, "0.1"), (-2.5, "-2.5"), (float("inf"), "inf"), (1e300, "1e+300")],
)
def test_cost(value: float, text: str) -> None:
    """A whole cost is written as a whole number."""
    assert cost(value) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [("2GB", 2 * 10**9), ("512MiB", 2**29), ("1.5 k", 1500), ("70", 70), ("70B", 70)],
)
def test_parse_size(text: str, number: int) -> None:
    """Sizes are read in decimal and binary units."""
    assert parse_size(text) == number


@pytest.mark.parametrize("text", ["", "GB", "3X", "2iB", "-1", "1,5GB"])
def test_parse_size_refuses(text: str) -> None:
    """What is no size is refused."""
    with pytest.raises(ValueError, match="is no size"):
        parse_size(text)


def test_size() -> None:
    """Sizes are written in decimal units."""
    assert [size(number) for number in (0, 1500, 25.3e9)] == ["0 B", "1.5 kB", "25.3 GB"]


def test_short() -> None:
    """A long value loses its middle, and keeps to the width."""
    text = short(list(range(1000)), 30)
    assert len(text) == 30
    assert text.startswith("[0, 1, ")
    assert text.endswith("999]")
    assert short("a\nb", 30) == r"'a\nb'"
