"""Expressions over labelled indices: what they are worth, and what the axioms make of them.

An expression is a tuple: its operator and what that takes. Nothing here knows of normal forms,
except for `form`, which asks for one step by step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiosearch.superoptimizer.algebra.normal_form import (
    BITS,
    GRID,
    LOOP,
    MOST_TERMS,
    REST,
    WHOLE,
    NormalForms,
)

Expr: TypeAlias = tuple[Any, ...]
Array: TypeAlias = NDArray[np.float64]

PARTS = (2, 1, 3, 2, 5, 1, 2, 3, 1, 2, 2, 2, 1, 3, 3, 2, 2, 2, 2, 2)
"""How large the parts of each label are, and the labels:"""
SIZES = tuple(math.prod(PARTS[at : at + BITS]) for at in range(0, len(PARTS), BITS))
LABELS = tuple(WHOLE << at for at in range(0, len(PARTS), BITS))
SPLITS = ((WHOLE, GRID), (WHOLE, LOOP), (WHOLE, GRID | LOOP), (LOOP | REST, LOOP))
"""Index parts, and a part of each."""


def given(name: str, mask: int) -> Expr:
    return ("input", name, mask)


def number(value: Fraction | int) -> Expr:
    return ("number", Fraction(value))


def operands(expr: Expr) -> tuple[Expr, ...]:
    return tuple(part for part in expr[1:] if isinstance(part, tuple))


def subterms(expr: Expr) -> Iterator[Expr]:
    """The expression and all that it is made of."""
    yield expr
    for part in operands(expr):
        yield from subterms(part)


def free(expr: Expr) -> int:
    """The index parts that it depends on."""
    if expr[0] == "input":
        return int(expr[2])
    found: int = reduce(or_, map(free, operands(expr)), 0)
    return found & ~expr[1] if expr[0] in ("sum", "largest") else found


def names(expr: Expr) -> set[str]:
    """The inputs that it is made of."""
    return {one[1] for one in subterms(expr) if one[0] == "input"}


def terms(expr: Expr) -> int:
    """How many products it is the sum of, multiplied out."""
    if expr[0] in ("add", "sub"):
        return terms(expr[1]) + terms(expr[2])
    if expr[0] == "mul":
        return terms(expr[1]) * terms(expr[2])
    return terms(operands(expr)[0]) if expr[0] in ("div", "sum") else 1


def plain(expr: Expr) -> bool:
    """Whether it has nothing that normal forms leave as it is.

    That is: sums of more than a few products, products of sums below a line or under a root, a root
    under a root, and two sums over one index inside of a sum.
    """
    return all(_plain(one) for one in subterms(expr))


def _plain(expr: Expr) -> bool:
    if expr[0] == "sqrt":
        return not _has(expr[1], "sqrt") and not _joint(expr[1])
    if expr[0] == "div":
        return not _joint(expr[2]) and terms(expr[1]) <= MOST_TERMS
    if expr[0] == "sum":
        return terms(expr) <= MOST_TERMS and _apart(_sums(expr))
    return terms(expr) <= MOST_TERMS


def _has(expr: Expr, operator: str) -> bool:
    return any(one[0] == operator for one in subterms(expr))


def _joint(expr: Expr) -> bool:
    """Whether sums are multiplied with each other in it."""
    return any(one[0] == "mul" and min(map(terms, one[1:])) > 1 for one in subterms(expr))


def _sums(expr: Expr) -> list[int]:
    """What it sums over, but in functions and below lines."""
    if expr[0] == "sum":
        return [expr[1], *_sums(expr[2])]
    if expr[0] == "div":
        return _sums(expr[1])
    return [mask for part in expr[1:] for mask in _sums(part)] if expr[0] in ("add", "mul") else []


def _apart(masks: list[int]) -> bool:
    return sum(masks) == reduce(or_, masks, 0)


def form(forms: NormalForms, expr: Expr) -> int:
    """Its normal form."""
    made = [form(forms, part) for part in operands(expr)]
    if expr[0] == "input":
        return forms.tensor(expr[1], expr[2])
    if expr[0] == "number":
        return forms.number(expr[1])
    if expr[0] == "size":
        return forms.size(expr[1])
    if expr[0] in ("sum", "largest"):
        return int(getattr(forms, expr[0])(made[0], expr[1]))
    if expr[0] in ("exp", "sqrt"):
        return int(getattr(forms, expr[0])(made[0]))
    if expr[0] == "silu":
        return forms.call("silu", *made)
    method = {"add": "add", "sub": "subtract", "mul": "multiply", "div": "divide"}[expr[0]]
    return int(getattr(forms, method)(*made))


def worth(expr: Expr, inputs: dict[str, Array]) -> Array:
    """Its values, with an axis for each index part, of size one where it depends on none."""
    made = [worth(part, inputs) for part in operands(expr)]
    if expr[0] == "input":
        return inputs[expr[1]]
    if expr[0] == "number":
        return np.full((1,) * len(PARTS), float(expr[1]))
    if expr[0] == "size":
        return np.full((1,) * len(PARTS), float(_count(expr[1])))
    if expr[0] in ("sum", "largest"):
        return _over(expr[0], made[0], expr[1])
    with np.errstate(all="ignore"):
        return np.asarray(_APPLIED[expr[0]](*made))


_APPLIED: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def _over(how: str, values: Array, mask: int) -> Array:
    bits = [bit for bit in range(len(PARTS)) if mask >> bit & 1]
    if how == "largest":
        return np.asarray(values.max(axis=tuple(bits), keepdims=True))
    for bit in bits:
        alone = values.shape[bit] == 1
        values = values.sum(axis=bit, keepdims=True) * (PARTS[bit] if alone else 1)
    return values


def _count(mask: int) -> int:
    return math.prod(size for bit, size in enumerate(PARTS) if mask >> bit & 1)


def draw(inputs: Expr, generator: np.random.Generator, low: float) -> Array:
    """Random values for an input, none less than `low`."""
    shape = [size if inputs[2] >> bit & 1 else 1 for bit, size in enumerate(PARTS)]
    return generator.uniform(low, 1, shape)


# The axioms


def rewrites(expr: Expr) -> Iterator[Expr]:
    """What one axiom makes of an expression, anywhere in it."""
    yield from _here(expr)
    for place, part in enumerate(expr):
        if place and isinstance(part, tuple):
            for new in rewrites(part):
                yield (*expr[:place], new, *expr[place + 1 :])


def _here(expr: Expr) -> Iterator[Expr]:
    yield from _AXIOMS.get(expr[0], lambda *parts: iter(()))(*expr[1:])


def _add(x: Expr, y: Expr) -> Iterator[Expr]:
    yield ("add", y, x)
    if x[0] == "add":
        yield ("add", x[1], ("add", x[2], y))
    if x[0] == y[0] == "mul" and x[2] == y[2]:
        yield ("mul", ("add", x[1], y[1]), x[2])
    if x[0] == y[0] == "div" and x[2] == y[2]:
        yield ("div", ("add", x[1], y[1]), x[2])
    if x[0] == y[0] == "sum" and x[1] == y[1]:
        yield ("sum", x[1], ("add", x[2], y[2]))


def _mul(x: Expr, y: Expr) -> Iterator[Expr]:
    yield ("mul", y, x)
    if x[0] == "mul":
        yield ("mul", x[1], ("mul", x[2], y))
    if x[0] == "add":
        yield ("add", ("mul", x[1], y), ("mul", x[2], y))
    if y[0] == "div":
        yield ("div", ("mul", x, y[1]), y[2])
    if x[0] == "sum" and not x[1] & free(y):
        yield ("sum", x[1], ("mul", x[2], y))
    if x[0] == y[0] == "exp":
        yield ("exp", ("add", x[1], y[1]))
    if x[0] == y[0] == "sqrt" and not names(x) & names(y):
        yield ("sqrt", ("mul", x[1], y[1]))


def _div(x: Expr, y: Expr) -> Iterator[Expr]:
    if x[0] == "add":
        yield ("add", ("div", x[1], y), ("div", x[2], y))
    if x[0] == "mul":
        yield ("mul", x[1], ("div", x[2], y))
    if x[0] == "div":
        yield ("div", x[1], ("mul", x[2], y))
    if y[0] == "mul":
        yield ("div", ("div", x, y[1]), y[2])
    if x[0] == "sum" and not x[1] & free(y):
        yield ("sum", x[1], ("div", x[2], y))


def _sum(mask: int, x: Expr) -> Iterator[Expr]:
    shift = (mask.bit_length() - 1) // BITS * BITS
    for whole, part in SPLITS:
        if mask == whole << shift:
            yield ("sum", part << shift, ("sum", (whole & ~part) << shift, x))
    if x[0] == "sum":
        yield ("sum", x[1], ("sum", mask, x[2]))
        if not mask & x[1]:
            yield ("sum", mask | x[1], x[2])
    if x[0] == "add":
        yield ("add", ("sum", mask, x[1]), ("sum", mask, x[2]))
    if x[0] in ("mul", "div") and not mask & free(x[2]):
        yield (x[0], ("sum", mask, x[1]), x[2])


def _exp(x: Expr) -> Iterator[Expr]:
    if x[0] == "add":
        yield ("mul", ("exp", x[1]), ("exp", x[2]))


def _sqrt(x: Expr) -> Iterator[Expr]:
    if x[0] == "mul" and not names(x[1]) & names(x[2]):
        yield ("mul", ("sqrt", x[1]), ("sqrt", x[2]))


_AXIOMS: dict[str, Any] = {
    "add": _add,
    "mul": _mul,
    "div": _div,
    "sum": _sum,
    "exp": _exp,
    "sqrt": _sqrt,
}
