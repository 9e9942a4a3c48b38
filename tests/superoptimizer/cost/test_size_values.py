from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosearch.superoptimizer.cost.size_values import CHOICES, SizeValues, divisors
from aiosearch.tensor import ShapeError, Size
from aiosearch.tensor.sizes import Divisor, quotient

G, R = (Size.named(Divisor(name)) for name in "gr")


@given(st.integers(1, 20_000), st.integers(1, 40))
def test_divisors_divide(number: int, most: int) -> None:
    """All of them in order where they are few, else as many as asked for, far apart."""
    found = divisors(number, most)
    every = [each for each in range(1, number + 1) if number % each == 0]
    assert found == sorted(set(found))
    assert set(found) <= set(every)
    assert len(found) == min(most, len(every))
    assert most == 1 or {1, number & -number} <= set(found)


def test_powers_of_two_come_first() -> None:
    """Of many divisors they are kept, and the others are thinned out evenly."""
    assert divisors(48, 7) == [1, 2, 3, 4, 8, 16, 48]
    assert divisors(4096, 4) == [1, 16, 256, 4096]


@given(st.sampled_from([48, 64, 60]), st.sampled_from([12, 16]))
def test_sizes_come_to_what_their_numbers_say(one: int, two: int) -> None:
    """In every combination, divisions included."""
    values = SizeValues.of({"g": one, "r": two})
    part = quotient(one * two, G * R)
    assert part is not None
    found = values(part * 3 + G - 2)
    for index in range(values.count):
        sizes = values.sizes(index)
        exact = one * two * 3 / (sizes["g"] * sizes["r"]) + sizes["g"] - 2
        assert found[index] == pytest.approx(exact)


def test_every_name_has_numbers() -> None:
    """A size of a name that there are none for is an error that says so."""
    with pytest.raises(ShapeError, match="g·r: r is no number to choose"):
        SizeValues.of({"g": 12})(G * R)


def test_there_are_not_too_many_combinations() -> None:
    """Of many names fewer divisors are tried, and there is a combination of none."""
    assert SizeValues.of(dict.fromkeys("abcdef", 2**12 * 3**4)).count <= CHOICES
    assert SizeValues.of({"a": 2**12 * 3**4}).count == 13 * 5
    assert SizeValues.of({}).count == 1


def test_some_combinations_are_chosen() -> None:
    """What is kept stays in order."""
    values = SizeValues.of({"g": 12, "r": 4})
    few = values.where(values(G * R) == 12)
    assert [few.sizes(index) for index in range(few.count)] == [
        {"g": 3, "r": 4},
        {"g": 6, "r": 2},
        {"g": 12, "r": 1},
    ]
