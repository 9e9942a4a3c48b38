"""A result of every operator of the tensor language, to hold each printer to."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiosearch.tensor import OPERATORS, DType, Term, apply, tensor

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0)
POINTWISE = [one.name for one in OPERATORS.values() if one.pointwise]
IN_GRAPHS = {"input", "literal", "load", "accumulate", "read", "write", "result"}
"""What inputs are, and what µgraphs are made of."""
FOLDS = ("sum", "mean", "max", "min")
SIZES = (0, 1, 3, 17, 4095)

_MORE: dict[str, dict[str, Any]] = {
    "exponential": {"base": 2.5},
    "power": {"exponent": 3},
    "clamp": {"low": -1, "high": 0.5},
    "cast": {"dtype": DType.I32},
}


def pointwise(dtype: DType, size: int) -> list[Term]:
    """Of each operator on elements, in the order of their names above."""
    x, y = (tensor(name, dtype, (size,)) for name in "XY")
    found = []
    for name in POINTWISE:
        arity = OPERATORS[name].arity
        operands = {1: (x,), 2: (x, y), 3: (apply("less", x, y), x, y)}[arity or 0]
        found.append(apply(name, *operands, **_MORE.get(name, {})))
    return found


def operands() -> NDArray[Any]:
    """Two rows: ordinary numbers, and then all pairs of awkward ones."""
    random = np.random.default_rng(0)
    return np.concatenate([random.normal(size=(28, 2)), [*product(SPECIAL, SPECIAL)]]).T


def others(dtype: DType) -> list[Term]:
    """Of each of the rest, at sizes that are no powers of two."""
    x, z = (tensor(name, dtype, (6, 9)) for name in "XZ")
    y, square = tensor("Y", dtype, (9, 7)), tensor("S", dtype, (7, 7))
    image, filters = tensor("I", dtype, (2, 9, 8, 3)), tensor("F", dtype, (3, 2, 3, 5))
    places = apply("reshape", apply("argmax", x, axis=1), shape=(6, 1))
    strided = {"strides": (2, 1), "low": (1, 0), "high": (2, 1), "dilation": (1, 2)}
    return [
        apply("convolution", image, filters, **strided),
        apply("convolution", image, tensor("D", dtype, (3, 2, 1, 6)), groups=3, **strided),
        *(apply(name, x, axes=(axis,)) for name in FOLDS for axis in (0, 1)),
        apply("sum", image, axes=(1, 3), keep=True),
        apply("rms_norm", x),
        apply("fold", x, axis=1, size=3),
        x @ y,
        apply("broadcast", apply("sum", x, axes=(0,), keep=True), shape=(6, 9)),
        apply("reshape", x, shape=(2, 27)),
        apply("transpose", image, axes=(3, 1, 0, 2)),
        apply("slice", x, axis=1, start=1, stop=8, step=3),
        apply("concatenate", x, z, axis=0),
        apply("stack", x, z, axis=1),
        apply("pad", x, axis=1, low=2, high=3, value=0.5),
        apply("diagonal", square),
        x + apply("iota", shape=(6, 9), axis=1, dtype=dtype),
        places,
        apply("argmin", x, axis=0),
        apply("take", z, places, axis=1),
        apply("scatter_add", z, places, apply("max", x, axes=(1,), keep=True), axis=1),
        apply("cumsum", x, axis=1),
        apply("cummax", x, axis=0, reverse=True),
        apply("cummin", x, axis=1),
    ]


def of_size(dtype: DType, size: int) -> list[Term]:
    """Along the lanes and down the columns: element by element, folded, and as a product."""
    x, y = (tensor(name, dtype, (size,)) for name in "XY")
    rows, columns = tensor("R", dtype, (2, size)), tensor("C", dtype, (size, 5))
    return [
        apply("silu", x) * y,
        apply("sum", x * y, axes=(0,)),
        apply("sum", rows, axes=(1,)),
        apply("sum", columns, axes=(0,)),
        rows @ columns,
        columns @ tensor("W", dtype, (5, 3)),
    ]


def names(terms: list[Term]) -> set[str]:
    """Of the operators that lead to some terms."""
    seen: set[Term] = set()
    todo = [*terms]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += one.arguments
    return {one.operator.name for one in seen}
