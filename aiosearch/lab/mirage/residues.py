"""Abstract terms evaluated at random numbers modulo a prime: equal terms give equal residues.

`of_term("(add X Y)")` is the residue of X plus that of Y. Functions without axioms, such as `exp`,
are random functions of their argument's residue, so different terms collide with a chance of one in
2**60.
"""

from __future__ import annotations

from hashlib import blake2b

PRIME = 2**61 - 1
"""A Mersenne prime, so that residues fit into 61 bits."""


def of_input(name: str) -> int:
    """The number that is drawn for the input `name`; always the same."""
    return _drawn("input", name)


def of(symbol: str, size: int, *values: int) -> int:
    """The residue of a function's result; `size` is that of a sum, as a power of two."""
    match symbol:
        case "add":
            return (values[0] + values[1]) % PRIME
        case "mul":
            return values[0] * values[1] % PRIME
        case "div":
            return values[0] * pow(values[1], -1, PRIME) % PRIME
        case "sum":
            # A sum of 2**size terms, of which it is not known that they differ, is their number
            # times one of them.
            return (values[0] << size) % PRIME
        case _:
            return _drawn(symbol, f"{size} {values[0]}")


def of_term(text: str) -> int:
    """The residue of a term as SMT-LIB writes it: `of_term("(mul X X)")` is the square of that of
    X.
    """
    value, remaining = _read(text.replace("(", " ( ").replace(")", " ) ").split())
    if remaining:
        raise ValueError(f"there is more than one term in {text!r}")
    return value


def _read(words: list[str]) -> tuple[int, list[str]]:
    first, *remaining = words
    if first != "(":
        return of_input(first), remaining
    symbol, *remaining = remaining
    size, values = 0, []
    while remaining[0] != ")":
        if remaining[0].isdigit():
            size, remaining = int(remaining[0]), remaining[1:]
        else:
            value, remaining = _read(remaining)
            values.append(value)
    return of(symbol, size, *values), remaining[1:]


def _drawn(symbol: str, argument: str) -> int:
    state = blake2b(f"{symbol} {argument}".encode(), digest_size=8)
    return int.from_bytes(state.digest(), "little") % (PRIME - 1) + 1
