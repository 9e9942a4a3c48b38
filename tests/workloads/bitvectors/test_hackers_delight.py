"""The 25 tasks: every reference program against a formula that shares nothing with it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random

import pytest
import z3

from aiosearch.workloads import TASKS
from aiosearch.workloads.bitvectors.instructions import literal

Formula = Callable[..., int | None]


def zeros(width: int, x: int) -> int:
    return width - x.bit_length()


def signed(width: int, x: int) -> int:
    return x - (x >> width - 1 << width)


def trailing(x: int) -> int:
    """The rightmost 1, by looking for it."""
    return next(1 << bit for bit in range(64) if x >> bit & 1) if x else 0


def without_last_run(width: int, x: int) -> int:
    bits = f"{x:0{width}b}"
    end = bits.rfind("1") + 1
    start = bits.rfind("0", 0, end) + 1
    return int(bits[:start] + "0" * (width - start), 2) if end else 0


def next_with_as_many(width: int, x: int) -> int | None:
    """None where there is no such number, or where finding it by counting up takes too long."""
    candidates = range(x + 1, min(x + 2_000, 1 << width))
    return next((y for y in candidates if x and y.bit_count() == x.bit_count()), None)


def cycled(width: int, x: int, a: int, b: int, c: int) -> int | None:
    if len({a, b, c}) < 3 or x not in (a, b, c):
        return None
    return {a: b, b: c, c: a}[x]


def exchanged(width: int, x: int, m: int, k: int) -> int | None:
    """None unless the two fields are apart and inside the word."""
    if k >= width or m & m << k or m << k >> width:
        return None
    return x & ~(m | m << k) | (x & m) << k | x >> k & m


def power_above(width: int, x: int) -> int:
    return (1 << (x - 1).bit_length()) % (1 << width) if x else 0


FORMULAS: dict[str, Formula] = {
    "P1": lambda w, x: x - trailing(x),
    "P2": lambda w, x: x & x + 1,
    "P3": lambda w, x: trailing(x),
    "P4": lambda w, x: 2 * trailing(x) - 1 if x else (1 << w) - 1,
    "P5": lambda w, x: x | trailing(x) - 1 if x else (1 << w) - 1,
    "P6": lambda w, x: x | trailing(~x & (1 << w) - 1),
    "P7": lambda w, x: trailing(~x & (1 << w) - 1),
    "P8": lambda w, x: trailing(x) - 1 if x else (1 << w) - 1,
    "P9": lambda w, x: abs(signed(w, x)),
    "P10": lambda w, x, y: int(zeros(w, x) == zeros(w, y)),
    "P11": lambda w, x, y: int(zeros(w, x) < zeros(w, y)),
    "P12": lambda w, x, y: int(zeros(w, x) <= zeros(w, y)),
    "P13": lambda w, x: ((signed(w, x) > 0) - (signed(w, x) < 0)) % (1 << w),
    "P14": lambda w, x, y: (x + y) // 2,
    "P15": lambda w, x, y: (x + y + 1) // 2,
    "P16": lambda w, x, y: max(signed(w, x), signed(w, y)) % (1 << w),
    "P17": without_last_run,
    "P18": lambda w, x: int(x.bit_count() == 1),
    "P19": exchanged,
    "P20": next_with_as_many,
    "P21": cycled,
    "P22": lambda w, x: x.bit_count() % 2,
    "P23": lambda w, x: x.bit_count(),
    "P24": power_above,
    "P25": lambda w, x, y: x * y >> w,
}


def vectors(name: str, width: int, count: int) -> list[tuple[int, ...]]:
    """Edge values in all combinations, random ones, and ones that fit the task's side condition."""
    random, arity = Random(name), len(TASKS[name].inputs)
    top = 1 << width - 1
    edges = [0, 1, 2, 3, 6, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1]
    given = list(product(edges if arity < 4 else edges[::3], repeat=arity))
    given += [tuple(random.getrandbits(width) for _ in range(arity)) for _ in range(count)]
    if name == "P19":
        given += [(random.getrandbits(width), 3, shift) for shift in range(2, width - 2)]
    if name == "P21":
        cycles = [random.sample(range(1 << width), 3) for _ in range(count)]
        given += [(random.choice(cycle), *cycle) for cycle in cycles]
    return given


def test_all_tasks() -> None:
    """There are the 25 tasks of the literature, in order."""
    assert list(TASKS) == [f"P{number}" for number in range(1, 26)] == list(FORMULAS)


@pytest.mark.parametrize("width", [8, 16, 32])
@pytest.mark.parametrize("name", TASKS)
def test_references(name: str, width: int) -> None:
    """A reference program computes what its task says, wherever the task says something."""
    program = TASKS[name].program(width)
    said = 0
    for values in vectors(name, width, 150):
        expected = FORMULAS[name](width, *values)
        if expected is not None:
            said += 1
            assert program.run(width, values) == expected, values
    assert said >= 10


@pytest.mark.parametrize("width", [8, 32])
@pytest.mark.parametrize("name", TASKS)
def test_references_in_smt(name: str, width: int) -> None:
    """z3 gives a reference program's SMT-LIB term the value that Python computes."""
    task = TASKS[name]
    program = task.program(width)
    for values in Random(1).sample(vectors(name, width, 30), 12):
        bound = " ".join(
            f"({x} {literal(value, width)})" for x, value in zip(task.inputs, values, strict=True)
        )
        term, result = program.term(width), literal(program.run(width, values), width)
        (equation,) = z3.parse_smt2_string(f"(assert (let ({bound}) (= {result} {term})))")
        assert z3.is_true(z3.simplify(equation)), values
