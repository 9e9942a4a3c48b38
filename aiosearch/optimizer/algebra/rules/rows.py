"""Rewrite rules for stacks: what is computed row by row is computed for all rows at once.

Example: `stack(f(x[0]), f(x[1]), f(x[2]))` is f applied along a new first axis: `f(x)`. So a loop
that was unrolled by tracing becomes one operator again, and its products one product.

The rows are walked together (`_Rows`): at each level all operators are the same, and their operands
are either one and the same term, slices of one source at equal distances, or rows again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ....tensor import ShapeError, Term, apply
from ..terms import named, reshaped, sizes, swapped, total, transposed
from .products import sum_as_product
from .registry import rule


@rule("stack", "concatenate")
def rows_at_once(term: Term) -> Iterator[Term]:
    """A stack of terms that are alike but for the slices that they read is computed at once."""
    if len(term.arguments) < 2:
        return
    joined = _Rows(term.arguments).together()
    if joined is None:
        return
    axis, rank = term.parameter("axis"), len(joined.shape)
    # Rows are counted in front; the stack wants them at its own axis.
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    yield reshaped(transposed(joined, order), term.shape)


@rule("add")
def sum_of_rows(term: Term) -> Iterator[Term]:
    """A sum of terms that are alike is the sum over one more axis; and then maybe a product, by
    `sum_as_product`."""
    parts = _addends(term)
    if len(parts) > 2 and all(part.shape == term.shape for part in parts):
        rows = _Rows(parts).together()
        if rows is not None:
            whole = total(rows, [0], keep=False)
            yield whole
            yield from sum_as_product(whole)


def _addends(term: Term) -> list[Term]:
    """The terms that a tree of additions adds up, from the left."""
    addends: list[Term] = []
    stack = [term]
    while stack:
        summand = stack.pop()
        if named(summand, "add"):
            stack.extend(reversed(summand.arguments))
        else:
            addends.append(summand)
    return addends


class _Rows:
    """Terms that are computed alike, merged into one with a further axis in front that
    counts them."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._terms = tuple(terms)
        self._found: dict[tuple[Term, ...], Term | None] = {}

    def together(self) -> Term | None:
        """All of them, counted by axis 0; `None` where they are not alike."""
        if all(term is self._terms[0] for term in self._terms):
            return None
        return self._joined(self._terms)

    def _joined(self, terms: tuple[Term, ...]) -> Term | None:
        """The merged term of a column of terms, from memory where it was merged before."""
        if terms not in self._found:
            try:
                self._found[terms] = self._step(terms)
            except ShapeError:
                # A shape that cannot be built ends only this column; it may be asked for again by
                # another user of the same terms.
                self._found[terms] = None
        return self._found[terms]

    def _step(self, terms: tuple[Term, ...]) -> Term | None:
        """Merges the operator of the terms, and their operands before."""
        first = terms[0]
        if any(term.operator is not first.operator or term.type != first.type for term in terms):
            return None
        if named(first, "slice"):
            joined = _slices(terms)
            if joined is not None:
                return joined
        alike = all(term.parameters == first.parameters for term in terms)
        if not alike or not first.arguments:
            return None
        if any(len(term.arguments) != len(first.arguments) for term in terms):
            return None
        operands: list[tuple[Term, bool]] = []
        for column in zip(*(term.arguments for term in terms), strict=True):
            # What all rows share is no row: it is repeated, or not even that where an operator
            # broadcasts.
            if all(term is column[0] for term in column):
                operands.append((column[0], False))
                continue
            joined = self._joined(column)
            if joined is None:
                return None
            operands.append((joined, True))
        return _over_rows(first, operands, len(terms))


def _slices(terms: Sequence[Term]) -> Term | None:
    """Slices of one source at equal distances, as a slice and a reshape that counts them in front.

    Example: x[0:4], x[4:8], x[8:12] of f32[12] are reshape(x, [3, 4]).
    """
    bounds = [dict(term.parameters) for term in terms]
    source, axis = terms[0].arguments[0], bounds[0]["axis"]
    if any(term.arguments[0] is not source for term in terms):
        return None
    if any(bound["axis"] != axis or bound["step"] != 1 for bound in bounds):
        return None
    starts = [bound["start"] for bound in bounds]
    length, distance = sizes(terms[0])[axis], starts[1] - starts[0]
    # Only ascending starts at one distance are a slice with steps; anything else would be a gather.
    if distance <= 0 or starts != [starts[0] + distance * at for at in range(len(starts))]:
        return None
    count = len(starts)
    if distance == length:
        cut = apply("slice", source, axis=axis, start=starts[0], stop=starts[0] + count * length)
    elif length == 1:
        stop = starts[-1] + 1
        cut = apply("slice", source, axis=axis, start=starts[0], stop=stop, step=distance)
    else:
        return None
    shape = sizes(source)
    split = reshaped(cut, (*shape[:axis], count, length, *shape[axis + 1 :]))
    trailing = [dimension for dimension in range(len(shape) + 1) if dimension != axis]
    return transposed(split, [axis, *trailing])


def _over_rows(first: Term, operands: Sequence[tuple[Term, bool]], count: int) -> Term | None:
    """The operator of `first` applied to all `count` rows; `None` for one that cannot take a
    further axis."""
    name, parameters = first.operator.name, dict(first.parameters)
    if name == "matmul":
        return _product(operands[0], operands[1], count)
    rows = [x if many else _one_row(first, x) for x, many in operands]
    if first.operator.pointwise:
        return apply(first.operator, *(_to_rank(x, first) for x in rows), **parameters)
    if not all(many for _, many in operands):
        rows = [
            x if many else _repeated(x, count) for x, (_, many) in zip(rows, operands, strict=True)
        ]
    if name in ("reshape", "broadcast"):
        if name == "broadcast" and not first.arguments[0].shape:
            rows = [reshaped(rows[0], (count, *(1 for _ in first.shape)))]
        return apply(name, *rows, shape=(count, *parameters["shape"]))
    if name == "transpose":
        return apply(name, *rows, axes=(0, *(axis + 1 for axis in parameters["axes"])))
    if "axes" in parameters:
        return apply(
            name, *rows, **{**parameters, "axes": tuple(axis + 1 for axis in parameters["axes"])}
        )
    if "axis" in parameters and name not in ("fold", "iota"):
        return apply(name, *rows, **{**parameters, "axis": parameters["axis"] + 1})
    return apply(name, *rows) if name in ("diagonal", "rms_norm") else None


def _one_row(first: Term, x: Term) -> Term:
    """An operand that all rows share, with an axis of size one where the others have the rows."""
    return reshaped(x, (1, *x.shape)) if x.shape else x


def _to_rank(x: Term, first: Term) -> Term:
    """A scalar of each row, with axes of size one so that it meets the axes of the other
    operands."""
    missing = len(first.shape) + 1 - len(x.shape)
    return reshaped(x, (*x.shape, *[1] * missing)) if x.shape and missing else x


def _repeated(x: Term, count: int) -> Term:
    """An operand that all rows share, repeated for each: reductions and moves do not broadcast."""
    return apply("broadcast", x, shape=(count, *x.shape[1:]))


def _product(left: tuple[Term, bool], right: tuple[Term, bool], count: int) -> Term:
    """One product for all rows; where they share a factor, all rows are the rows of one matrix."""
    (x, left_varies), (y, right_varies) = left, right
    if left_varies and right_varies:
        return x @ y
    if left_varies:
        if len(y.shape) > 2:
            return x @ reshaped(y, (1, *y.shape))
        rows = reshaped(x, (prod(sizes(x)[:-1]), x.shape[-1]))
        return reshaped(rows @ y, (*x.shape[:-1], y.shape[-1]))
    if len(x.shape) > 2 or y.shape[-1] != 1:
        return reshaped(x, (1, *x.shape)) @ y
    # A matrix times many columns: one product with all of them as rows, transposed.
    columns = reshaped(y, (count, y.shape[-2]))
    return reshaped(columns @ swapped(x), (count, x.shape[-2], 1))
