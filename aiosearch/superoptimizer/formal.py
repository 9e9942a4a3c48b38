"""A program's terms as forms: what its axes are labelled, and what each term's elements are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from ..tensor import Program, Term
from ..tensor.algebra import Function
from ..tensor.errors import TensorError
from ..tensor.evaluate import step
from ..tensor.labels import input_labels
from ..tensor.operator import NUMBERS, regroup
from ..tensor.sizes import Dim
from .forms import BITS, WHOLE, Forms, Mask, label_of

Axis: TypeAlias = tuple[Mask, ...]
"""The index parts that an axis runs over, outermost first; none where it has one element."""
Axes: TypeAlias = tuple[Axis, ...]

ROW: Axis = ()


class UnsearchableError(TensorError):
    """A program that the superoptimizer cannot search; the message says what of it."""


@dataclass(frozen=True)
class Formal:
    """A tensor: its elements, and which index each axis is."""

    form: int
    axes: Axes


@dataclass(frozen=True)
class Reference:
    """A program in forms."""

    program: Program
    forms: Forms
    labels: tuple[str, ...]
    """What each label is called."""
    sizes: tuple[int, ...]
    """The size of each label."""
    values: dict[Term, Formal]

    @property
    def outputs(self) -> tuple[Formal, ...]:
        return tuple(self.values[term] for term in self.program.outputs)


def read(program: Program) -> Reference:
    """Finds the forms of a program's terms; raises UnsearchableError."""
    names: dict[object, int] = {}
    called: list[str] = []
    sizes: list[int] = []
    inputs: list[Axes] = []
    for one, labels in zip(program.inputs, input_labels(program), strict=True):
        axes: list[Axis] = []
        for axis, (label, size) in enumerate(zip(labels, one.shape, strict=True)):
            if not isinstance(size, int):
                raise UnsearchableError(f"{program.name} has the size {size}: give it as a number")
            if label is None:
                axes.append(ROW)
                continue
            if label not in names:
                names[label] = len(names)
                called.append(_called(label.name, one.parameter("name"), axis, called))
                sizes.append(size)
            axes.append((WHOLE << BITS * names[label],))
        if len({axis for axis in axes if axis}) < sum(axis != ROW for axis in axes):
            raise UnsearchableError(
                f"{program.name}: two axes of {one.parameter('name')} run over one index"
            )
        inputs.append(tuple(axes))
    forms = Forms(sizes)
    values: dict[Term, Formal] = {}
    for one, axes_of in zip(program.inputs, inputs, strict=True):
        mask = 0
        for axis_of in axes_of:
            mask |= sum(axis_of)
        values[one] = Formal(forms.tensor(one.parameter("name"), mask), axes_of)
    _evaluate(program, FormalAlgebra(forms, tuple(sizes)), values)
    return Reference(program, forms, tuple(called), tuple(sizes), values)


def read_with(program: Program, reference: Reference) -> list[Formal]:
    """The outputs of another program of the same inputs; raises TensorError."""
    values = {one: reference.values[one] for one in reference.program.inputs}
    _evaluate(program, FormalAlgebra(reference.forms, reference.sizes), values)
    return [values[output] for output in program.outputs]


def _evaluate(program: Program, algebra: FormalAlgebra, values: dict[Term, Formal]) -> None:
    for term in program.terms():
        if term not in values:
            operands = [values[argument] for argument in term.arguments]
            values[term] = step(term, algebra, operands)


def _called(label: str | None, tensor: str, axis: int, taken: Sequence[str]) -> str:
    plain = label if label is not None and not label.isdigit() else f"{tensor}{axis}"
    return plain if plain not in taken else f"{plain}{len(taken)}"


class FormalAlgebra:
    """The algebra of forms: what moves elements moves indices."""

    def __init__(self, forms: Forms, sizes: tuple[int, ...]) -> None:
        self._forms = forms
        self._sizes = sizes

    def constant(self, value: Fraction | float) -> Formal:
        if isinstance(value, float):
            raise UnsearchableError(f"the number {value}")
        return Formal(self._forms.number(value), ())

    def iota(self, shape: Sequence[Dim], axis: int) -> Formal:
        raise UnsearchableError("positions along an axis")

    def _axes(self, *xs: Formal) -> Axes:
        found: Axes = ()
        for x in xs:
            if not found or not x.axes:
                found = found or x.axes
                continue
            found = tuple(_met(one, two) for one, two in zip(found, x.axes, strict=True))
        return _apart(found)

    def add(self, x: Formal, y: Formal) -> Formal:
        return Formal(self._forms.add(x.form, y.form), self._axes(x, y))

    def subtract(self, x: Formal, y: Formal) -> Formal:
        return Formal(self._forms.subtract(x.form, y.form), self._axes(x, y))

    def multiply(self, x: Formal, y: Formal) -> Formal:
        return Formal(self._forms.multiply(x.form, y.form), self._axes(x, y))

    def divide(self, x: Formal, y: Formal) -> Formal:
        if not self._forms.items[y.form]:
            raise UnsearchableError("a division by zero")
        return Formal(self._forms.divide(x.form, y.form), self._axes(x, y))

    def negative(self, x: Formal) -> Formal:
        return Formal(self._forms.negative(x.form), x.axes)

    def exp(self, x: Formal) -> Formal:
        return Formal(self._forms.exp(x.form), x.axes)

    def sqrt(self, x: Formal) -> Formal:
        return Formal(self._forms.sqrt(x.form), x.axes)

    def log(self, x: Formal) -> Formal:
        return self._call("log", x)

    def absolute(self, x: Formal) -> Formal:
        return self._call("absolute", x)

    def maximum(self, x: Formal, y: Formal) -> Formal:
        return self._unordered("maximum", x, y)

    def minimum(self, x: Formal, y: Formal) -> Formal:
        return self._unordered("minimum", x, y)

    def compare(self, how: str, x: Formal, y: Formal) -> Formal:
        return self._call(how, x, y)

    def select(self, where: Formal, x: Formal, y: Formal) -> Formal:
        return self._call("select", where, x, y)

    def function(self, function: Function, *arguments: Formal) -> Formal:
        if function.means is not None:
            found: Formal = function.means(self, *arguments)
            return found
        return self._call(function.name, *arguments)

    def _call(self, name: str, *xs: Formal) -> Formal:
        return Formal(self._forms.call(name, *(x.form for x in xs)), self._axes(*xs))

    def _unordered(self, name: str, x: Formal, y: Formal) -> Formal:
        first, second = sorted((x.form, y.form))
        if first == second:
            return Formal(first, self._axes(x, y))
        return Formal(self._forms.call(name, first, second), self._axes(x, y))

    def sum(self, x: Formal, axes: Sequence[int]) -> Formal:
        return Formal(self._forms.sum(x.form, _mask(x, axes)), _without(x, axes))

    def largest(self, x: Formal, axes: Sequence[int]) -> Formal:
        return Formal(self._forms.largest(x.form, _mask(x, axes)), _without(x, axes))

    def matmul(self, x: Formal, y: Formal) -> Formal:
        inner = _met(x.axes[-1], y.axes[-2])
        lead = self._axes(Formal(x.form, x.axes[:-2]), Formal(y.form, y.axes[:-2]))
        product = self._forms.multiply(x.form, y.form)
        _apart((*lead, x.axes[-2], inner, y.axes[-1]))
        return Formal(self._forms.sum(product, sum(inner)), (*lead, x.axes[-2], y.axes[-1]))

    def size(self, x: Formal, axis: int) -> Formal:
        return Formal(self._forms.size(sum(x.axes[axis])), ())

    def broadcast(self, x: Formal, shape: Sequence[Dim]) -> Formal:
        return Formal(x.form, x.axes or (ROW,) * len(shape))

    def reshape(self, x: Formal, shape: Sequence[Dim]) -> Formal:
        own = self.shape(x)
        found: list[Axis] = [ROW] * len(shape)
        for left, right in regroup(NUMBERS, own, tuple(shape)):
            pieces = [piece for axis in left for piece in x.axes[axis]]
            for axis in right:
                found[axis], pieces = self._taken(pieces, shape[axis])
        return Formal(x.form, tuple(found))

    def _taken(self, pieces: list[Mask], size: Dim) -> tuple[Axis, list[Mask]]:
        taken: list[Mask] = []
        count = 1
        while count != size and pieces:
            taken.append(pieces[0])
            count *= self._size(pieces[0])
            pieces = pieces[1:]
        if count != size:
            raise UnsearchableError("an axis that is cut into two")
        return tuple(taken), pieces

    def transpose(self, x: Formal, axes: Sequence[int]) -> Formal:
        return Formal(x.form, tuple(x.axes[axis] for axis in axes))

    def slice(self, x: Formal, axis: int, start: Dim, stop: Dim, step: int) -> Formal:
        raise UnsearchableError("a part of an axis")

    def concatenate(self, xs: Sequence[Formal], axis: int) -> Formal:
        raise UnsearchableError("tensors side by side")

    def pad(self, x: Formal, axis: int, low: Dim, high: Dim, value: Fraction) -> Formal:
        raise UnsearchableError("padding")

    def diagonal(self, x: Formal) -> Formal:
        raise UnsearchableError("a diagonal")

    def windows(self, x: Formal, axis: int, window: Dim, stride: int, dilation: int) -> Formal:
        raise UnsearchableError("windows of an axis")

    def cast(self, x: Formal, dtype: str) -> Formal:
        raise UnsearchableError("a change of element type")

    def shape(self, x: Formal) -> tuple[Dim, ...]:
        found = []
        for axis in x.axes:
            size = 1
            for piece in axis:
                size *= self._size(piece)
            found.append(size)
        return tuple(found)

    def _size(self, piece: Mask) -> int:
        return self._sizes[label_of(piece)]


def overlap(axes: Axes) -> bool:
    """Whether two axes run over parts of one index."""
    seen = 0
    for axis in axes:
        for piece in axis:
            if seen & piece:
                return True
            seen |= piece
    return False


def _apart(axes: Axes) -> Axes:
    if overlap(axes):
        raise UnsearchableError("two axes of a tensor that run over one index")
    return axes


def _met(one: Axis, two: Axis) -> Axis:
    if one and two and one != two:
        raise UnsearchableError("axes meet that run over different indices")
    return one or two


def _mask(x: Formal, axes: Sequence[int]) -> Mask:
    return sum(sum(x.axes[axis]) for axis in axes)


def _without(x: Formal, axes: Sequence[int]) -> Axes:
    return tuple(ROW if at in axes else axis for at, axis in enumerate(x.axes))
