"""Which rows of its operands a primitive needs for a run of rows of its result.

Problem: rows lo to lo + b of a result, along one of its axes, are wanted. Which rows of each
operand, along which of its axes, give exactly these, and with which parameters does the primitive
compute them from those alone?

A *demand* on a value is either all of it (`WHOLE`) or its rows `lo + shift` to `lo + shift + b`
along an axis. A rule answers a demand on a result with a demand on each operand. Where it knows no
better, it asks for nothing, and the rows are cut from the whole result: every program can be asked
for rows, and those of which little is gained are told by how much stays whole (`demands`).

Example: rows of `x @ w` along axis 0 need the same rows of x, and all of w. Rows of `x[1:] -
x[:-1]` need rows lo + 1... and lo... of x. Rows of `cumsum(x)` need all of x, so there is no rule.

Correct: a rule may be used if, for every lo and b, the primitive applied to those parts of its
operands equals those rows of its result. Rules are checked so, primitive by primitive, in tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...capture.jax_types import Leaf
from .equations import Equation, PrimitiveParams


@dataclass(frozen=True)
class Rows:
    """Rows of a value along an axis, `shift` rows further down than those of the result."""

    axis: int
    shift: int = 0


WHOLE: None = None
Demand = Rows | None


@dataclass(frozen=True)
class RowRequirement:
    """What the operands must give, and parameters as functions of how many rows there are."""

    operands: tuple[Demand, ...]
    params: Callable[[PrimitiveParams, int], PrimitiveParams] = field(
        default=lambda params, rows: params
    )
    emit: Callable[[Sequence[Leaf], int, Leaf], Leaf] | None = None
    """Computes the result from the operands, so many rows from a first one; for what is a loop."""


Rule = Callable[[Equation, int, Rows], RowRequirement | None]
"""Takes an equation, which of its results is wanted, and which rows of it."""

ELEMENTWISE = frozenset(
    [
        "abs",
        "acos",
        "acosh",
        "add",
        "add_any",
        "and",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "ceil",
        "clamp",
        "clz",
        "conj",
        "convert_element_type",
        "copy",
        "copy_p",
        "cos",
        "cosh",
        "digamma",
        "div",
        "eq",
        "eq_to",
        "erf",
        "erf_inv",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "ge",
        "gt",
        "igamma",
        "igammac",
        "imag",
        "integer_pow",
        "is_finite",
        "le",
        "lgamma",
        "log",
        "log1p",
        "logistic",
        "lt",
        "max",
        "min",
        "mul",
        "ne",
        "neg",
        "nextafter",
        "not",
        "or",
        "polygamma",
        "population_count",
        "pow",
        "real",
        "reduce_precision",
        "rem",
        "round",
        "rsqrt",
        "select_n",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
        "sign",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "stop_gradient",
        "sub",
        "tan",
        "tanh",
        "xor",
        "zeta",
    ]
)
"""Each element of the result depends on the same element of the operands, or on a scalar."""

REDUCTIONS = frozenset(
    [
        "argmax",
        "argmin",
        "reduce_and",
        "reduce_max",
        "reduce_min",
        "reduce_or",
        "reduce_prod",
        "reduce_sum",
        "reduce_xor",
    ]
)
CUMULATIVE = frozenset({"cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"})


def _resized(name: str, axis: int) -> Callable[[PrimitiveParams, int], PrimitiveParams]:
    """A shape among the parameters has as many rows along an axis as there are."""

    def change(params: PrimitiveParams, rows: int) -> PrimitiveParams:
        shape = list(params[name])
        shape[axis] = rows
        return {**params, name: tuple(shape)}

    return change


def elementwise(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    """Operands are as long as the result along an axis, or 1 long and repeated, or scalars."""
    shape = equation.outputs[result].shape
    demands: list[Demand] = []
    for operand in equation.inputs:
        if operand.shape and len(operand.shape) != len(shape):
            return None
        full = bool(operand.shape) and operand.shape[rows.axis] == shape[rows.axis]
        demands.append(rows if full else WHOLE)
    return RowRequirement(tuple(demands))


def broadcast_in_dim(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    operand, dimensions = equation.inputs[0], equation.params["broadcast_dimensions"]
    if len(equation.inputs) > 1:
        return None
    size = equation.outputs[0].shape[rows.axis]
    demand: Demand = WHOLE
    if rows.axis in dimensions:
        position = dimensions.index(rows.axis)
        if operand.shape[position] == size:
            demand = Rows(position, rows.shift)
    return RowRequirement((demand,), _resized("shape", rows.axis))


def dot_general(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    (left_sum, right_sum), (left_batch, right_batch) = equation.params["dimension_numbers"]
    left, right = equation.inputs
    axis = rows.axis
    if axis < len(left_batch):
        return RowRequirement(
            (Rows(left_batch[axis], rows.shift), Rows(right_batch[axis], rows.shift))
        )
    axis -= len(left_batch)
    free = [a for a in range(len(left.shape)) if a not in (*left_sum, *left_batch)]
    if axis < len(free):
        return RowRequirement((Rows(free[axis], rows.shift), WHOLE))
    axis -= len(free)
    free = [a for a in range(len(right.shape)) if a not in (*right_sum, *right_batch)]
    return RowRequirement((WHOLE, Rows(free[axis], rows.shift)))


def reduction(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    reduced = equation.params["axes"]
    left = [a for a in range(len(equation.inputs[0].shape)) if a not in reduced]
    return RowRequirement((Rows(left[rows.axis], rows.shift),))


def cumulative(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    return None if equation.params["axis"] == rows.axis else RowRequirement((rows,))


def transpose(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    return RowRequirement((Rows(equation.params["permutation"][rows.axis], rows.shift),))


def reshape(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    """An axis survives where what comes before it, and its own size, stay the same."""
    if equation.params.get("dimensions") is not None:
        return None
    shape, new = equation.inputs[0].shape, equation.outputs[0].shape
    before = math.prod(new[: rows.axis])
    for axis, size in enumerate(shape):
        if math.prod(shape[:axis]) == before and size == new[rows.axis]:
            return RowRequirement((Rows(axis, rows.shift),), _resized("new_sizes", rows.axis))
    return None


def squeeze(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    gone = equation.params["dimensions"]
    left = [a for a in range(len(equation.inputs[0].shape)) if a not in gone]
    return RowRequirement((Rows(left[rows.axis], rows.shift),))


def expand_dims(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    new = equation.params["dimensions"]
    if rows.axis in new:
        return None
    old = [a for a in range(len(equation.outputs[0].shape)) if a not in new]
    return RowRequirement((Rows(old.index(rows.axis), rows.shift),))


def concatenate(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    if equation.params["dimension"] == rows.axis:
        return None
    return RowRequirement((rows,) * len(equation.inputs))


def pad(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    if equation.params["padding_config"][rows.axis] != (0, 0, 0):
        return None
    return RowRequirement((rows, WHOLE))


def rev(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    return None if rows.axis in equation.params["dimensions"] else RowRequirement((rows,))


def slice_rule(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    """A slice along the rows moves them down; along another axis it changes nothing about them."""
    axis = rows.axis
    strides = equation.params["strides"]
    if strides is not None and strides[axis] != 1:
        return None

    def change(params: PrimitiveParams, count: int) -> PrimitiveParams:
        starts, limits = list(params["start_indices"]), list(params["limit_indices"])
        starts[axis], limits[axis] = 0, count
        return {**params, "start_indices": tuple(starts), "limit_indices": tuple(limits)}

    first = equation.params["start_indices"][axis]
    return RowRequirement((Rows(axis, rows.shift + first),), change)


def dynamic_slice(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    operand, *starts = equation.inputs
    # A start along an axis that is taken whole is clamped to 0, in a block as in the whole.
    if operand.shape[rows.axis] != equation.outputs[0].shape[rows.axis]:
        return None
    return RowRequirement((rows, *[WHOLE] * len(starts)), _resized("slice_sizes", rows.axis))


def dynamic_update_slice(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    operand, update, *starts = equation.inputs
    if operand.shape[rows.axis] != update.shape[rows.axis]:
        return None
    return RowRequirement((rows, rows, *[WHOLE] * len(starts)))


def gather(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    """Rows of a table that are looked up by rows of indices: the table is needed whole."""
    numbers = equation.params["dimension_numbers"]
    if numbers.operand_batching_dims or rows.axis in numbers.offset_dims:
        return None
    batch = [a for a in range(len(equation.outputs[0].shape)) if a not in numbers.offset_dims]
    return RowRequirement((WHOLE, Rows(batch.index(rows.axis), rows.shift)))


def sort(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    if equation.params["dimension"] == rows.axis:
        return None
    return RowRequirement((rows,) * len(equation.inputs))


def top_k(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    sorted_axis = equation.params.get("axis", len(equation.inputs[0].shape) - 1)
    return None if rows.axis == sorted_axis else RowRequirement((rows,))


def convolution(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    numbers = equation.params["dimension_numbers"]
    if rows.axis != numbers.out_spec[0] or equation.params["batch_group_count"] != 1:
        return None
    return RowRequirement((Rows(numbers.lhs_spec[0], rows.shift), WHOLE))


def iota(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    if equation.params["dimension"] == rows.axis:
        return None
    return RowRequirement((), _resized("shape", rows.axis))


RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, elementwise),
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(CUMULATIVE, cumulative),
    "broadcast_in_dim": broadcast_in_dim,
    "concatenate": concatenate,
    "conv_general_dilated": convolution,
    "dot_general": dot_general,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "expand_dims": expand_dims,
    "gather": gather,
    "iota": iota,
    "pad": pad,
    "reshape": reshape,
    "rev": rev,
    "slice": slice_rule,
    "sort": sort,
    "squeeze": squeeze,
    "top_k": top_k,
    "transpose": transpose,
}


def requirement(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    """What an equation needs for rows of a result, or nothing where there is no rule for it."""
    rule = RULES.get(equation.name)
    return rule(equation, result, rows) if rule else None
