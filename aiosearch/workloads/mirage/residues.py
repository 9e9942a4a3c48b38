"""Abstract terms evaluated at random numbers modulo a prime: equal terms give equal residues."""

from __future__ import annotations

from hashlib import blake2b

PRIME = 2**61 - 1


def of_input(name: str) -> int:
    """The number that is drawn for an input; the same one always."""
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
            return (values[0] << size) % PRIME
        case _:
            return _drawn(symbol, f"{size} {values[0]}")


def of_term(text: str) -> int:
    """The residue of a term as SMT-LIB writes it."""
    value, rest = _read(text.replace("(", " ( ").replace(")", " ) ").split())
    if rest:
        raise ValueError(f"there is more than one term in {text!r}")
    return value


def _read(words: list[str]) -> tuple[int, list[str]]:
    first, *rest = words
    if first != "(":
        return of_input(first), rest
    symbol, *rest = rest
    size, values = 0, []
    while rest[0] != ")":
        if rest[0].isdigit():
            size, rest = int(rest[0]), rest[1:]
        else:
            value, rest = _read(rest)
            values.append(value)
    return of(symbol, size, *values), rest[1:]


def _drawn(symbol: str, argument: str) -> int:
    state = blake2b(f"{symbol} {argument}".encode(), digest_size=8)
    return int.from_bytes(state.digest(), "little") % (PRIME - 1) + 1
