"""Rewrite rules for stacks: what is computed row by row is computed for all rows at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ....tensor import ShapeError, Term, apply
from ..terms import named, reshaped, sizes, swapped, total, transposed
from .products import sum_as_product
from .registry import rule


@rule("stack", "concatenate")
def rows_at_once(term: Term) -> Iterator[Term]:
    """Operands that are alike, but for the slices that they read."""
    if len(term.arguments) < 2:
        return
    found = _Rows(term.arguments).together()
    if found is None:
        return
    axis, rank = term.parameter("axis"), len(found.shape)
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    yield reshaped(transposed(found, order), term.shape)


@rule("add")
def sum_of_rows(term: Term) -> Iterator[Term]:
    """A sum of terms that are alike is the sum of all rows."""
    parts = _addends(term)
    if len(parts) > 2 and all(one.shape == term.shape for one in parts):
        found = _Rows(parts).together()
        if found is not None:
            whole = total(found, [0], keep=False)
            yield whole
            yield from sum_as_product(whole)


def _addends(term: Term) -> list[Term]:
    found: list[Term] = []
    stack = [term]
    while stack:
        one = stack.pop()
        if named(one, "add"):
            stack.extend(reversed(one.arguments))
        else:
            found.append(one)
    return found


class _Rows:
    """Terms that are computed alike, with one more axis in front that counts them."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._terms = tuple(terms)
        self._found: dict[tuple[Term, ...], Term | None] = {}

    def together(self) -> Term | None:
        """All of them, counted by axis 0; None where they are not alike."""
        if all(one is self._terms[0] for one in self._terms):
            return None
        return self._joined(self._terms)

    def _joined(self, terms: tuple[Term, ...]) -> Term | None:
        if terms not in self._found:
            try:
                self._found[terms] = self._step(terms)
            except ShapeError:
                self._found[terms] = None
        return self._found[terms]

    def _step(self, terms: tuple[Term, ...]) -> Term | None:
        first = terms[0]
        if any(one.operator is not first.operator or one.type != first.type for one in terms):
            return None
        if named(first, "slice"):
            found = _slices(terms)
            if found is not None:
                return found
        alike = all(one.parameters == first.parameters for one in terms)
        if not alike or not first.arguments:
            return None
        if any(len(one.arguments) != len(first.arguments) for one in terms):
            return None
        operands: list[tuple[Term, bool]] = []
        for column in zip(*(one.arguments for one in terms), strict=True):
            if all(one is column[0] for one in column):
                operands.append((column[0], False))
                continue
            found = self._joined(column)
            if found is None:
                return None
            operands.append((found, True))
        return _over_rows(first, operands, len(terms))


def _slices(terms: Sequence[Term]) -> Term | None:
    """Slices of one source at equal distances."""
    given = [dict(one.parameters) for one in terms]
    source, axis = terms[0].arguments[0], given[0]["axis"]
    if any(one.arguments[0] is not source for one in terms):
        return None
    if any(own["axis"] != axis or own["step"] != 1 for own in given):
        return None
    starts = [own["start"] for own in given]
    length, far = sizes(terms[0])[axis], starts[1] - starts[0]
    if far <= 0 or starts != [starts[0] + far * at for at in range(len(starts))]:
        return None
    count = len(starts)
    if far == length:
        cut = apply("slice", source, axis=axis, start=starts[0], stop=starts[0] + count * length)
    elif length == 1:
        stop = starts[-1] + 1
        cut = apply("slice", source, axis=axis, start=starts[0], stop=stop, step=far)
    else:
        return None
    shape = sizes(source)
    split = reshaped(cut, (*shape[:axis], count, length, *shape[axis + 1 :]))
    rest = [own for own in range(len(shape) + 1) if own != axis]
    return transposed(split, [axis, *rest])


def _over_rows(first: Term, operands: Sequence[tuple[Term, bool]], count: int) -> Term | None:
    """The operator applied to all rows."""
    name, given = first.operator.name, dict(first.parameters)
    if name == "matmul":
        return _product(operands[0], operands[1], count)
    rows = [x if many else _one_row(first, x) for x, many in operands]
    if first.operator.pointwise:
        return apply(first.operator, *(_to_rank(x, first) for x in rows), **given)
    if not all(many for _, many in operands):
        rows = [
            x if many else _repeated(x, count) for x, (_, many) in zip(rows, operands, strict=True)
        ]
    if name in ("reshape", "broadcast"):
        if name == "broadcast" and not first.arguments[0].shape:
            rows = [reshaped(rows[0], (count, *(1 for _ in first.shape)))]
        return apply(name, *rows, shape=(count, *given["shape"]))
    if name == "transpose":
        return apply(name, *rows, axes=(0, *(axis + 1 for axis in given["axes"])))
    if "axes" in given:
        return apply(name, *rows, **{**given, "axes": tuple(axis + 1 for axis in given["axes"])})
    if "axis" in given and name not in ("fold", "iota"):
        return apply(name, *rows, **{**given, "axis": given["axis"] + 1})
    return apply(name, *rows) if name in ("diagonal", "rms_norm") else None


def _one_row(first: Term, x: Term) -> Term:
    return reshaped(x, (1, *x.shape)) if x.shape else x


def _to_rank(x: Term, first: Term) -> Term:
    """Scalars of each row meet the axes of the others."""
    missing = len(first.shape) + 1 - len(x.shape)
    return reshaped(x, (*x.shape, *[1] * missing)) if x.shape and missing else x


def _repeated(x: Term, count: int) -> Term:
    return apply("broadcast", x, shape=(count, *x.shape[1:]))


def _product(left: tuple[Term, bool], right: tuple[Term, bool], count: int) -> Term:
    """One product for all rows, where they share a factor."""
    (x, many), (y, more) = left, right
    if many and more:
        return x @ y
    if many:
        if len(y.shape) > 2:
            return x @ reshaped(y, (1, *y.shape))
        rows = reshaped(x, (prod(sizes(x)[:-1]), x.shape[-1]))
        return reshaped(rows @ y, (*x.shape[:-1], y.shape[-1]))
    if len(x.shape) > 2 or y.shape[-1] != 1:
        return reshaped(x, (1, *x.shape)) @ y
    columns = reshaped(y, (count, y.shape[-2]))
    return reshaped(columns @ swapped(x), (count, x.shape[-2], 1))
