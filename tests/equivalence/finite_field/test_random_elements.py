"""What is drawn at random: the same for the same seed, and spread over the whole field."""

from __future__ import annotations

from itertools import islice

from aiosearch.equivalence.finite_field.random_primes import PRIME_BITS, elements, prime


def test_elements_are_the_same_for_the_same_names_only() -> None:
    assert elements(101, 50, "input", 1) == elements(101, 50, "input", 1)
    assert elements(101, 50, "input", 1) != elements(101, 50, "input", 2)


def test_a_longer_draw_starts_with_the_shorter_one() -> None:
    assert elements(101, 50, "input")[:10] == elements(101, 10, "input")


def test_every_element_of_a_small_field_is_drawn_about_equally_often() -> None:
    drawn = elements(7, 7000, "all")
    assert set(drawn) == set(range(7))
    assert all(850 < drawn.count(value) < 1150 for value in range(7))


def test_each_draw_has_its_own_prime_of_full_length() -> None:
    found = [prime(5, draw) for draw in range(4)]
    assert len(set(found)) == 4
    assert all(number.bit_length() == PRIME_BITS for number in found)
    assert found == [prime(5, draw) for draw in range(4)]


def test_drawn_primes_pass_another_test() -> None:
    for draw in range(3):
        number = prime(9, draw)
        bases = islice(elements(number - 2, 10, "fermat"), 10)
        assert all(pow(base + 1, number - 1, number) == 1 for base in bases)
