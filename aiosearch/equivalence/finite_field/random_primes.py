"""Random primes and random elements of a prime field.

Everything is a stream of SHAKE-256 keyed by the seed, so that a draw can be repeated anywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache

PRIME_BITS = 127
"""Drawn primes lie between two to the 126th and two to the 127th."""

_SMALL = tuple(n for n in range(3, 400, 2) if all(n % d for d in range(3, 20, 2) if d < n))
_WIDTH = 32
"""Bytes for one element: what is left of uniformity after a remainder is below 2**-128."""


def stream(length: int, *names: object) -> bytes:
    """Bytes that nobody can tell from uniform ones, the same for the same names."""
    return hashlib.shake_256(repr(names).encode()).digest(length)


def elements(prime: int, count: int, *names: object) -> list[int]:
    """Independent uniform elements of a prime field."""
    drawn = stream(count * _WIDTH, *names)
    return [
        int.from_bytes(drawn[at : at + _WIDTH], "little") % prime
        for at in range(0, len(drawn), _WIDTH)
    ]


@lru_cache(maxsize=256)
def prime(seed: int, draw: int) -> int:
    """A uniform prime of `BITS` bits; composite with a chance below 2**-128."""
    return next(n for n in _candidates(seed, draw) if _is_prime(n, seed, draw))


def _candidates(seed: int, draw: int) -> Iterator[int]:
    """Odd numbers of the right length, drawn one by one."""
    block = 0
    while True:
        drawn = stream(64 * 16, "prime", seed, draw, block)
        for at in range(0, len(drawn), 16):
            number = int.from_bytes(drawn[at : at + 16], "little") >> (128 - PRIME_BITS)
            yield number | 1 << (PRIME_BITS - 1) | 1
        block += 1


def _is_prime(number: int, seed: int, draw: int) -> bool:
    if any(number % small == 0 for small in _SMALL):
        return False
    bases = elements(number - 3, 64, "witness", seed, draw, number)
    return all(_passes(number, base + 2) for base in bases)


def _passes(number: int, base: int) -> bool:
    """One round of Miller and Rabin."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    power = pow(base, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False
