"""Sites: what can be drawn, how a value moves, and what becomes of one that no longer fits."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosearch.tuner.space.sites import (
    MOST_WASTE,
    CategoricalSite,
    ForkSite,
    IntegerSite,
    LocationSite,
    PermutationSite,
    SizeSite,
    TileSite,
)

tiles = st.builds(
    TileSite,
    name=st.just("t"),
    extent=st.integers(1, 96),
    parts=st.integers(1, 4),
    most_inner=st.sampled_from((0, 1, 4, 16)),
    padded=st.booleans(),
)
listed = st.sampled_from(
    [
        CategoricalSite(name="c", values=(64, 128, 256)),
        CategoricalSite(name="mixed", values=("a", None, True)),
        IntegerSite(name="i", low=1, high=9, step=2),
        IntegerSite(name="p", low=1, high=16, base=2),
        SizeSite(name="s", extent=48, lanes=8, units=2),
        LocationSite(name="l", places=("root", "m0", "m1")),
        ForkSite(name="f", branches=("row", "column")),
        PermutationSite(name="o", items=("m", "n", "k")),
    ]
)


def factorizations(extent: int, parts: int) -> list[tuple[int, ...]]:
    """By brute force."""
    candidates = itertools.product(range(1, extent + 1), repeat=parts)
    return sorted(each for each in candidates if math.prod(each) == extent)


@pytest.mark.parametrize(("extent", "parts"), [(1, 3), (12, 2), (12, 3), (16, 3), (7, 2), (30, 3)])
def test_perfect_tiles_are_all_ordered_factorizations(extent: int, parts: int) -> None:
    site = TileSite(name="t", extent=extent, parts=parts)
    assert list(site.members()) == factorizations(extent, parts)
    assert site.size == len(site.members())


def test_sizes_follow_from_the_extent_and_the_hardware() -> None:
    site = SizeSite(name="s", extent=100, lanes=16, units=4)
    assert {25, 16, 64, 100, 13} <= set(site.usual())
    assert {48, 80, 96} <= set(site.members()) - set(site.usual())
    assert set(SizeSite(name="s", extent=100, lanes=16, units=4, most=20).members()) <= set(
        range(21)
    )


def test_sizes_are_refined_by_whole_vectors() -> None:
    site, random = SizeSite(name="s", extent=512, lanes=16, units=2), Random(0)
    near = {site.mutate(256, random) for _ in range(200)}
    assert {240, 272} <= near
    assert not {240, 272} & {site.draw(random) for _ in range(200)}


def test_perfect_tiles_are_drawn_uniformly() -> None:
    """Of 12 in three parts there are 18 tiles; 18,000 draws give each about a thousand times."""
    site, random = TileSite(name="t", extent=12, parts=3), Random(1)
    counts = Counter(site.draw(random) for _ in range(18_000))
    assert len(counts) == 18
    assert all(850 < count < 1150 for count in counts.values())


def test_tiles_with_a_limit_are_drawn_uniformly() -> None:
    site, random = TileSite(name="t", extent=64, parts=3, most_inner=4), Random(2)
    counts = Counter(site.draw(random) for _ in range(1000 * site.size))
    assert set(counts) == set(site.members())
    assert all(850 < count < 1150 for count in counts.values())


def test_a_prime_extent_has_padded_tiles() -> None:
    site = TileSite(name="t", extent=1009, parts=2, padded=True)
    assert TileSite(name="t", extent=1009, parts=2).size == 2
    assert site.size > 100
    assert all(outer * inner >= 1009 for outer, inner in site.members())
    assert all(outer * inner <= 1009 * (1 + MOST_WASTE) for outer, inner in site.members())


@given(site=st.one_of(tiles, listed), seed=st.integers(0, 1000))
def test_what_is_drawn_and_moved_to_is_a_member(site: Any, seed: int) -> None:
    random = Random(seed)
    value = site.draw(random)
    moved = site.mutate(value, random)
    assert site.contains(value)
    assert site.contains(moved)
    assert site.contains(site.first())
    assert value in site.members()
    assert moved != value or site.size < 3


@given(site=tiles, value=st.lists(st.integers(-2, 200), max_size=5))
def test_a_repaired_tile_is_a_member(site: TileSite, value: list[int]) -> None:
    repaired = site.repair(tuple(value))
    assert repaired is None or site.contains(repaired)


def test_a_tile_of_another_extent_keeps_its_innermost_factors() -> None:
    site = TileSite(name="t", extent=96, parts=3)
    assert site.repair((8, 4, 32)) == (1, 3, 32)


def test_a_number_becomes_the_nearest_by_ratio() -> None:
    site = IntegerSite(name="i", low=16, high=256, base=2)
    assert site.repair(100) == 128
    assert site.repair(5) == 16


def test_a_place_that_is_gone_becomes_the_nearest_outside() -> None:
    before = LocationSite(name="l", places=("root", "m0", "n0", "m1"))
    assert LocationSite(name="l", places=("root", "m0")).repair("m1", before) == "m0"
    assert LocationSite(name="l", places=("root", "m0")).repair("m1") is None


def test_an_order_keeps_what_is_still_there() -> None:
    site = PermutationSite(name="o", items=("m", "n", "b"))
    assert site.repair(("k", "n", "m")) == ("n", "m", "b")


def test_true_is_not_one() -> None:
    """Python says they are equal; a record that has one has not the other."""
    assert not CategoricalSite(name="c", values=(True, False)).contains(1)


def test_probabilities_steer_draws() -> None:
    site = CategoricalSite(name="c", values=("a", "b"), probabilities=(0.9, 0.1))
    random = Random(0)
    counts = Counter(site.draw(random) for _ in range(1000))
    assert 850 < counts["a"] < 950
