"""Seeded pairs of programs, right ones and such as differ at few inputs: a family for each mistake.

`singular` pairs differ where a divisor or a logarithm vanishes, `ties` where numbers are equal, and
`limits` where whole numbers are at the ends of their type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

import numpy as np

from aiosearch.equivalence import Verdict, verify, verify_functions
from aiosearch.equivalence.rounding.machine import OWN, execute
from aiosearch.tensor import DType, Program, TensorType, Term, apply, literal, tensor
from aiosearch.tensor.floats import Array

SHAPE = (16, 8)
X, Y = tensor("X", "f32", SHAPE), tensor("Y", "f32", SHAPE)
Pair: TypeAlias = tuple[Program, Program]
Bits: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int32]]"


def _program(output: Term) -> Program:
    return Program("p", (X, Y), (output,))


# Singularities


def singular(seed: int) -> tuple[Pair, Pair]:
    """A pair that differs where something vanishes, and one that does not."""
    for number in range(1000):
        random = Random(f"{seed} {number}")
        value, factor, at = _value(random), *_vanishing(random)
        wrong = random.choice(_LEAVING)(value, factor)
        right = random.choice(_STAYING)(value, factor)
        original = _program(value + 0.0)
        # In floats 0.3·x - 0.9 may not vanish anywhere: such a pair is right.
        if _leaves(original, _program(wrong), at):
            return (original, _program(wrong)), (original, _program(right))
    raise ValueError(f"no pair for seed {seed}")


def _leaves(original: Program, wrong: Program, at: tuple[float, float]) -> bool:
    inputs = [np.full(SHAPE, number, np.float32) for number in at]
    ours, theirs = (execute(program, OWN, inputs)[0] for program in (original, wrong))
    return bool(np.isfinite(ours).all() and not np.isfinite(theirs).all())


def _value(random: Random) -> Term:
    """What both programs compute; finite for all numbers of usual size."""
    return random.choice(
        (X, X + _number(random), X * Y, X * X + Y, apply("tanh", X) + Y, X * _number(random))
    )


def _number(random: Random) -> float:
    return random.choice((1.0, 2.0, 3.0, 0.5, 1.5, 0.25, 4.0, 0.1, 0.7, 2.7, 5.0, 10.0))


def _vanishing(random: Random) -> tuple[Term, tuple[float, float]]:
    """A factor, and values of `X` and `Y` at which it is zero."""
    c, d = _number(random), _number(random)
    return random.choice(
        (
            (X - c, (c, 0.0)),
            (c - X, (c, 0.0)),
            (X + c, (-c, 0.0)),
            (X * d - c, (c / d, 0.0)),
            (X * X - c * c, (c, 0.0)),
            ((X - c) * (X - d), (d, 0.0)),
            (X - Y, (c, c)),
            (apply("abs", X) - c, (-c, 0.0)),
            (X * X - X * c, (c, 0.0)),
            (X + Y, (c, -c)),
        )
    )


_LEAVING: tuple[Callable[[Term, Term], Term], ...] = (
    lambda f, g: (f * g) / g,
    lambda f, g: f * (g / g),
    lambda f, g: f + g / g - 1.0,
    lambda f, g: f + 0.0 * apply("log", apply("abs", g)),
    lambda f, g: f * apply("exp", apply("log", g * g) - 2.0 * apply("log", apply("abs", g))),
    lambda f, g: f * (apply("rsqrt", g * g) * apply("abs", g)),
)
_STAYING: tuple[Callable[[Term, Term], Term], ...] = (
    lambda f, g: (f * (g * g + 1.0)) / (g * g + 1.0),
    lambda f, g: f * (apply("exp", apply("tanh", g)) / apply("exp", apply("tanh", g))),
    lambda f, g: f * apply("exp", apply("log", g * g + 1.0) - apply("log", g * g + 1.0)),
)


# Ties


def ties(seed: int) -> tuple[Pair, Pair]:
    """A pair that decides otherwise between equal numbers, and one that does not."""
    random = Random(seed)
    left, right = _compared(random)
    first, second = random.sample((X * 2, Y - 1, X * Y, Y * 0.5, X + 3), 2)
    strict = random.choice((True, False))
    name, other = ("less", "less_equal") if strict else ("less_equal", "less")
    original = apply("select", apply(name, left, right), first, second)
    wrong = random.choice(
        (
            apply("select", apply(other, left, right), first, second),
            apply("select", apply(name, right, left), second, first),
        )
    )
    same = apply("select", apply(other, right, left), second, first)
    kind = random.randrange(3)
    if kind == 1:
        original, wrong, same = _shares(random)
    if kind == 2:
        original, wrong, same = _rounded(random)
    return (_program(original), _program(wrong)), (_program(original), _program(same))


def _compared(random: Random) -> tuple[Term, Term]:
    """Two values that are equal at some inputs."""
    top = apply("max", X, axes=(1,), keep=True)
    return random.choice(
        (
            (X, Y),
            (X, literal(random.choice((0, 1, -1, 0.5, 2)))),
            (X + 1, Y),
            (X * 2, Y),
            (apply("abs", X), apply("abs", Y)),
            (X, -Y),
            (apply("broadcast", top, shape=SHAPE), X * 1.0 + 0.5),
        )
    )


def _shares(random: Random) -> tuple[Term, Term, Term]:
    """Where a maximum is: shared out among equal numbers, or not."""
    axis = random.choice((0, 1))
    top = apply("max", X, axes=(axis,), keep=True)
    ones = apply("cast", apply("equal", X, top), dtype="f32")
    count = apply("sum", ones, axes=(axis,), keep=True)
    weight = random.choice((Y, Y * 2, Y + 1))
    whole = weight * apply("cast", apply("less_equal", top, X), dtype="f32")
    return weight * (ones / count), whole, weight * ones * (1 / count)


def _rounded(random: Random) -> tuple[Term, Term, Term]:
    """Halves to even numbers, up or down."""
    value = random.choice((X, X * 0.5, X + Y, X * 2))
    up, down = apply("floor", value + 0.5), -apply("floor", 0.5 - value)
    even = apply("round", value)
    original, wrong = random.sample((up, down, even), 2)
    return original, wrong, original * 1.0


# Whole numbers at the ends of their type


@dataclass(frozen=True)
class WholeFunction:
    """A function of whole numbers that can be run and not read."""

    compute: Callable[[Bits, Bits], Bits]
    inputs: Sequence[TensorType] = (TensorType(DType.I32, (64,)),) * 2
    outputs: Sequence[TensorType] = (TensorType(DType.I32, (64,)),)

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        with np.errstate(all="ignore"):
            first, second = (x.astype(np.int32) for x in inputs)
            return [self.compute(first, second).astype(np.float64)]

    double = own


Whole: TypeAlias = Callable[[Bits, Bits], Bits]


def limits(seed: int) -> tuple[tuple[Whole, Whole], tuple[Whole, Whole]]:
    """A pair that differs where something wraps around, and one that never does."""
    random = Random(seed)
    original, wrong, same = random.choice(list(_whole(random)))
    mask = np.int32(random.choice((-1, 0x7FFFFFFF, 0x55555555, 255)) | 1)
    mixed = random.choice((lambda z, b: z, lambda z, b: z ^ (b & mask), lambda z, b: z ^ mask))

    def of(function: Whole) -> Whole:
        return lambda a, b: mixed(function(a, b), b)

    return (of(original), of(wrong)), (of(original), of(same))


def _whole(random: Random) -> Iterator[tuple[Whole, Whole, Whole]]:
    """Functions of bits, each with one that wraps around elsewhere and one that is the same."""
    k = random.randrange(1, 12)
    low = np.int32((1 << k) - 1)
    yield (
        lambda a, b: (a & b) + ((a ^ b) >> 1),
        lambda a, b: (a + b) >> 1,
        lambda a, b: (a | b) - ((a ^ b) - ((a ^ b) >> 1)),
    )
    yield (
        np.maximum,
        lambda a, b: a - ((a - b) & ((a - b) >> 31)),
        lambda a, b: np.where(a < b, b, a),
    )
    yield (
        lambda a, b: (a < b).astype(np.int32),
        lambda a, b: ((a - b) >> 31) & 1,
        lambda a, b: (b > a) & np.int32(1),
    )
    yield (
        lambda a, b: a,
        lambda a, b: (a << k) >> k,
        lambda a, b: (a & low) | (a & ~low),
    )
    yield (
        lambda a, b: np.where((a & low) == 0, a, (a | low) + 1),
        lambda a, b: np.where(a > 0, np.minimum((a + low) & ~low, (a | low)), (a + low) & ~low),
        lambda a, b: (a + low) & ~low,
    )
    yield (
        lambda a, b: ((a >> 1) ^ (b >> 1)) >> 30,
        lambda a, b: (a - b) >> 31,
        lambda a, b: (a ^ b) >> 31,
    )
    yield (
        lambda a, b: (a.astype(np.int64) + b).clip(-(2**31), 2**31 - 1).astype(np.int32),
        lambda a, b: a + b,
        lambda a, b: np.clip(a.astype(np.float64) + b, -(2**31), 2**31 - 1).astype(np.int32),
    )


def _verified(
    pairs: Callable[[int], tuple[Pair, Pair]],
) -> Callable[[int], tuple[Verdict, Verdict]]:
    """What `verify` says of the wrong and the right pair of a seed."""

    def verdicts(seed: int) -> tuple[Verdict, Verdict]:
        wrong, right = pairs(seed)
        return verify(*wrong), verify(*right)

    return verdicts


def _run(seed: int) -> tuple[Verdict, Verdict]:
    """What is said of whole functions, which are run: no operator is for bits."""
    wrong, right = (
        verify_functions(*map(WholeFunction, pair), "bits are no operator") for pair in limits(seed)
    )
    return wrong, right


FAMILIES = {"singular": _verified(singular), "ties": _verified(ties), "limits": _run}
"""For each family the verdicts on the wrong and on the right pair of a seed."""

__all__ = ["FAMILIES", "WholeFunction", "limits", "singular", "ties"]
