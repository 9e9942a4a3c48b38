"""Random primes and random elements of a prime field.

All randomness is a stream of SHAKE-256 of the seed and a purpose, `stream(32, "input", 0, 1)`, so
that a draw can be repeated on every machine and Python version, and no program can hold a pattern
that the inputs share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache

PRIME_BITS = 127
"""Drawn primes lie between 2^126 and 2^127."""

_SMALL = tuple(n for n in range(3, 400, 2) if all(n % d for d in range(3, 20, 2) if d < n))
"""Odd primes below 400, by which candidates are divided before `_passes` is asked."""
_WIDTH = 32
"""Bytes drawn for one element.

For a prime of `PRIME_BITS` the bias after the remainder is below 2^-128.
"""


def stream(length: int, *names: object) -> bytes:
    """`length` bytes that cannot be told from uniform ones, the same for the same `names`."""
    return hashlib.shake_256(repr(names).encode()).digest(length)


def elements(prime: int, count: int, *names: object) -> list[int]:
    """`count` independent uniform elements of the field of `prime` elements, keyed by `names`."""
    drawn = stream(count * _WIDTH, *names)
    return [
        int.from_bytes(drawn[at : at + _WIDTH], "little") % prime
        for at in range(0, len(drawn), _WIDTH)
    ]


@lru_cache(maxsize=256)
def prime(seed: int, draw: int) -> int:
    """A uniform prime of `PRIME_BITS` bits for a `draw`; composite with a chance below 2^-128."""
    return next(n for n in _candidates(seed, draw) if _is_prime(n, seed, draw))


def _candidates(seed: int, draw: int) -> Iterator[int]:
    """Odd numbers of `PRIME_BITS` bits, drawn one after the other."""
    block = 0
    while True:
        drawn = stream(64 * 16, "prime", seed, draw, block)
        for at in range(0, len(drawn), 16):
            number = int.from_bytes(drawn[at : at + 16], "little") >> (128 - PRIME_BITS)
            # The top bit fixes the length, the lowest one leaves out even numbers.
            yield number | 1 << (PRIME_BITS - 1) | 1
        block += 1


def _is_prime(number: int, seed: int, draw: int) -> bool:
    """Trial division by `_SMALL`, then 64 rounds of Miller and Rabin."""
    if any(number % small == 0 for small in _SMALL):
        return False
    # A composite passes one round for at most a quarter of the bases: 4^-64 = 2^-128. Bases are
    # drawn from the number itself, so that the test is repeatable.
    bases = elements(number - 3, 64, "witness", seed, draw, number)
    return all(_passes(number, base + 2) for base in bases)


def _passes(number: int, base: int) -> bool:
    """One round of the test of Miller and Rabin, with a `base` in [2, number - 2]."""
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
