"""Reading a program into normal forms: the index label of each axis, and the form of each term.

Reading is evaluating: `FormalAlgebra` gives each operator its meaning over forms, as other algebras
give it over floats or fields. Worked example: `matmul(X[row=2, feature=3], W[feature=3, column=4])`
becomes `LabelledTensor(form=4, axes=((15,), (3840,)))`, whose axes are the bits of row and column.

`uncast` removes changes of floating types, for which the search has no operator. A kernel adds up
in 32 bits at least, whatever types it loads and stores. So where a program widens half types to add
them up and narrows the sum, the program without both is what a kernel does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from ...tensor import Program, Term
from ...tensor.algebra import Function
from ...tensor.analysis.substitution import rebuilt_term
from ...tensor.errors import TensorError
from ...tensor.evaluation import step
from ...tensor.labels import input_labels
from ...tensor.mugraph import RESULT
from ...tensor.operator import NUMBERS, regroup
from ...tensor.sizes import Dim
from ...tensor.types import FLOATING
from .normal_form import BITS, WHOLE, Mask, NormalForms, label_of

Axis: TypeAlias = tuple[Mask, ...]
"""The index parts that an axis runs over, outermost first; none where it has one element."""
Axes: TypeAlias = tuple[Axis, ...]
"""The axes of a tensor."""

ROW: Axis = ()
"""The axis of one element."""


class UnsearchableError(TensorError):
    """A program that the superoptimizer cannot search; the message says what of it."""


@dataclass(frozen=True)
class LabelledTensor:
    """A tensor: the form of its elements, and which index each axis is."""

    form: int
    axes: Axes


@dataclass(frozen=True)
class NormalFormProgram:
    """A program with the form of each of its terms."""

    program: Program
    forms: NormalForms
    labels: tuple[str, ...]
    """What each label is called."""
    sizes: tuple[int, ...]
    """The size of each label."""
    values: dict[Term, LabelledTensor]

    @property
    def outputs(self) -> tuple[LabelledTensor, ...]:
        return tuple(self.values[term] for term in self.program.outputs)

    def count(self, mask: Mask) -> int:
        """How many values the index parts in `mask` take together."""
        bits = (bit for bit in range(mask.bit_length()) if mask >> bit & 1)
        return math.prod(self.sizes[bit // BITS] for bit in bits)


def read(program: Program) -> NormalFormProgram:
    """Finds the forms of a program's terms; raises UnsearchableError."""
    names: dict[object, int] = {}
    called: list[str] = []
    sizes: list[int] = []
    inputs: list[Axes] = []
    for term, labels in zip(program.inputs, input_labels(program), strict=True):
        axes: list[Axis] = []
        for axis, (label, size) in enumerate(zip(labels, term.shape, strict=True)):
            if not isinstance(size, int):
                raise UnsearchableError(f"{program.name} has the size {size}: give it as a number")
            if label is None:
                axes.append(ROW)
                continue
            if label not in names:
                names[label] = len(names)
                called.append(_label_name(label.name, term.parameter("name"), axis, called))
                sizes.append(size)
            axes.append((WHOLE << BITS * names[label],))
        # X[i, i] would be a diagonal: index parts tell axes apart, so no two may share one.
        if len({axis for axis in axes if axis}) < sum(axis != ROW for axis in axes):
            raise UnsearchableError(
                f"{program.name}: two axes of {term.parameter('name')} run over one index"
            )
        inputs.append(tuple(axes))
    forms = NormalForms(sizes)
    values: dict[Term, LabelledTensor] = {}
    for term, axes_of in zip(program.inputs, inputs, strict=True):
        mask = 0
        for axis_of in axes_of:
            mask |= sum(axis_of)
        values[term] = LabelledTensor(forms.tensor(term.parameter("name"), mask), axes_of)
    _evaluate(program, FormalAlgebra(forms, tuple(sizes)), values)
    return NormalFormProgram(program, forms, tuple(called), tuple(sizes), values)


def read_with(program: Program, reference: NormalFormProgram) -> list[LabelledTensor]:
    """The outputs of another program of the inputs of `reference`, in its forms; raises
    TensorError.
    """
    values = {term: reference.values[term] for term in reference.program.inputs}
    _evaluate(program, FormalAlgebra(reference.forms, reference.sizes), values)
    return [values[output] for output in program.outputs]


def _evaluate(program: Program, algebra: FormalAlgebra, values: dict[Term, LabelledTensor]) -> None:
    for term in program.terms():
        if term not in values:
            operands = [values[argument] for argument in term.arguments]
            values[term] = step(term, algebra, operands)


def _label_name(label: str | None, tensor: str, axis: int, names: Sequence[str]) -> str:
    """A name of a label for people: its own, or that of the tensor and axis it came up at first."""
    plain = label if label is not None and not label.isdigit() else f"{tensor}{axis}"
    return plain if plain not in names else f"{plain}{len(names)}"


class FormalAlgebra:
    """The algebra of forms: what moves elements moves indices, and changes no form."""

    def __init__(self, forms: NormalForms, sizes: tuple[int, ...]) -> None:
        self._forms = forms
        self._sizes = sizes

    def constant(self, value: Fraction | float) -> LabelledTensor:
        if isinstance(value, float):
            raise UnsearchableError(f"the number {value}")
        return LabelledTensor(self._forms.number(value), ())

    def iota(self, shape: Sequence[Dim], axis: int) -> LabelledTensor:
        raise UnsearchableError("positions along an axis")

    def _axes(self, *xs: LabelledTensor) -> Axes:
        """The axes of a pointwise result; raises where operands run over different indices."""
        axes: Axes = ()
        for x in xs:
            if not axes or not x.axes:
                axes = axes or x.axes
                continue
            axes = tuple(
                _matching_axis(left, right) for left, right in zip(axes, x.axes, strict=True)
            )
        return _distinct_axes(axes)

    def add(self, x: LabelledTensor, y: LabelledTensor) -> LabelledTensor:
        return LabelledTensor(self._forms.add(x.form, y.form), self._axes(x, y))

    def subtract(self, x: LabelledTensor, y: LabelledTensor) -> LabelledTensor:
        return LabelledTensor(self._forms.subtract(x.form, y.form), self._axes(x, y))

    def multiply(self, x: LabelledTensor, y: LabelledTensor) -> LabelledTensor:
        return LabelledTensor(self._forms.multiply(x.form, y.form), self._axes(x, y))

    def divide(self, x: LabelledTensor, y: LabelledTensor) -> LabelledTensor:
        if not self._forms.items[y.form]:
            raise UnsearchableError("a division by zero")
        return LabelledTensor(self._forms.divide(x.form, y.form), self._axes(x, y))

    def negative(self, x: LabelledTensor) -> LabelledTensor:
        return LabelledTensor(self._forms.negative(x.form), x.axes)

    def exp(self, x: LabelledTensor) -> LabelledTensor:
        return LabelledTensor(self._forms.exp(x.form), x.axes)

    def sqrt(self, x: LabelledTensor) -> LabelledTensor:
        return LabelledTensor(self._forms.sqrt(x.form), x.axes)

    def log(self, x: LabelledTensor) -> LabelledTensor:
        return self._call("log", x)

    def absolute(self, x: LabelledTensor) -> LabelledTensor:
        return self._call("absolute", x)

    def maximum(self, x: LabelledTensor, y: LabelledTensor) -> LabelledTensor:
        return self._unordered("maximum", x, y)

    def minimum(self, x: LabelledTensor, y: LabelledTensor) -> LabelledTensor:
        return self._unordered("minimum", x, y)

    def compare(self, how: str, x: LabelledTensor, y: LabelledTensor) -> LabelledTensor:
        return self._call(how, x, y)

    def select(self, where: LabelledTensor, x: LabelledTensor, y: LabelledTensor) -> LabelledTensor:
        return self._call("select", where, x, y)

    def function(self, function: Function, *arguments: LabelledTensor) -> LabelledTensor:
        if function.means is not None:
            tensor: LabelledTensor = function.means(self, *arguments)
            return tensor
        return self._call(function.name, *arguments)

    def _call(self, name: str, *xs: LabelledTensor) -> LabelledTensor:
        return LabelledTensor(self._forms.call(name, *(x.form for x in xs)), self._axes(*xs))

    def _unordered(self, name: str, x: LabelledTensor, y: LabelledTensor) -> LabelledTensor:
        """A function of two operands in either order; of two equal operands it is the operand."""
        first, second = sorted((x.form, y.form))
        if first == second:
            return LabelledTensor(first, self._axes(x, y))
        return LabelledTensor(self._forms.call(name, first, second), self._axes(x, y))

    def sum(self, x: LabelledTensor, axes: Sequence[int]) -> LabelledTensor:
        return LabelledTensor(self._forms.sum(x.form, _mask(x, axes)), _without_label(x, axes))

    def largest(self, x: LabelledTensor, axes: Sequence[int]) -> LabelledTensor:
        return LabelledTensor(self._forms.largest(x.form, _mask(x, axes)), _without_label(x, axes))

    def matmul(self, x: LabelledTensor, y: LabelledTensor) -> LabelledTensor:
        inner = _matching_axis(x.axes[-1], y.axes[-2])
        lead = self._axes(LabelledTensor(x.form, x.axes[:-2]), LabelledTensor(y.form, y.axes[:-2]))
        product = self._forms.multiply(x.form, y.form)
        _distinct_axes((*lead, x.axes[-2], inner, y.axes[-1]))
        return LabelledTensor(self._forms.sum(product, sum(inner)), (*lead, x.axes[-2], y.axes[-1]))

    def size(self, x: LabelledTensor, axis: int) -> LabelledTensor:
        return LabelledTensor(self._forms.size(sum(x.axes[axis])), ())

    def broadcast(self, x: LabelledTensor, shape: Sequence[Dim]) -> LabelledTensor:
        return LabelledTensor(x.form, x.axes or (ROW,) * len(shape))

    def reshape(self, x: LabelledTensor, shape: Sequence[Dim]) -> LabelledTensor:
        """Regroups the index parts of the axes; an axis that would have to be cut in two is
        refused.
        """
        old_shape = self.shape(x)
        axes: list[Axis] = [ROW] * len(shape)
        for left, right in regroup(NUMBERS, old_shape, tuple(shape)):
            pieces = [piece for axis in left for piece in x.axes[axis]]
            for axis in right:
                axes[axis], pieces = self._leading_pieces(pieces, shape[axis])
        return LabelledTensor(x.form, tuple(axes))

    def _leading_pieces(self, pieces: list[Mask], size: Dim) -> tuple[Axis, list[Mask]]:
        """The pieces of an axis of `size`, from the front of `pieces`, and the pieces that are
        left.
        """
        pieces_of_axis: list[Mask] = []
        count = 1
        while count != size and pieces:
            pieces_of_axis.append(pieces[0])
            count *= self._size(pieces[0])
            pieces = pieces[1:]
        if count != size:
            raise UnsearchableError("an axis that is cut into two")
        return tuple(pieces_of_axis), pieces

    def transpose(self, x: LabelledTensor, axes: Sequence[int]) -> LabelledTensor:
        return LabelledTensor(x.form, tuple(x.axes[axis] for axis in axes))

    def slice(
        self, x: LabelledTensor, axis: int, start: Dim, stop: Dim, step: int
    ) -> LabelledTensor:
        raise UnsearchableError("a part of an axis")

    def concatenate(self, xs: Sequence[LabelledTensor], axis: int) -> LabelledTensor:
        raise UnsearchableError("tensors side by side")

    def pad(
        self, x: LabelledTensor, axis: int, low: Dim, high: Dim, value: Fraction
    ) -> LabelledTensor:
        raise UnsearchableError("padding")

    def diagonal(self, x: LabelledTensor) -> LabelledTensor:
        raise UnsearchableError("a diagonal")

    def windows(
        self, x: LabelledTensor, axis: int, window: Dim, stride: int, dilation: int
    ) -> LabelledTensor:
        raise UnsearchableError("windows of an axis")

    def cast(self, x: LabelledTensor, dtype: str) -> LabelledTensor:
        raise UnsearchableError("a change of element type")

    def shape(self, x: LabelledTensor) -> tuple[Dim, ...]:
        shape = []
        for axis in x.axes:
            size = 1
            for piece in axis:
                size *= self._size(piece)
            shape.append(size)
        return tuple(shape)

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


def _distinct_axes(axes: Axes) -> Axes:
    """The axes, where no two run over parts of one index; raises UnsearchableError else."""
    if overlap(axes):
        raise UnsearchableError("two axes of a tensor that run over one index")
    return axes


def _matching_axis(left: Axis, right: Axis) -> Axis:
    """The axis of two that meet, where one may have a single element."""
    if left and right and left != right:
        raise UnsearchableError("axes meet that run over different indices")
    return left or right


def _mask(x: LabelledTensor, axes: Sequence[int]) -> Mask:
    return sum(sum(x.axes[axis]) for axis in axes)


def _without_label(x: LabelledTensor, axes: Sequence[int]) -> Axes:
    return tuple(ROW if at in axes else axis for at, axis in enumerate(x.axes))


def uncast(program: Program) -> Program:
    """The program without its casts between floating types.

    It is the program itself where other casts would have to go, or where the types of outputs would
    change.
    """
    values: dict[Term, Term] = {}
    try:
        for term in program.terms():
            values[term] = _without_cast(term, [values[output] for output in term.arguments])
    except TensorError:
        return program
    outputs = tuple(values[output] for output in program.outputs)
    if [output.type for output in outputs] != [output.type for output in program.outputs]:
        return program
    return Program(program.name, program.inputs, outputs)


def _without_cast(term: Term, arguments: list[Term]) -> Term:
    if term.operator is RESULT or not arguments:
        return term
    if term.operator.name == "cast" and {term.dtype, term.arguments[0].dtype} <= FLOATING:
        return arguments[0]
    if arguments == list(term.arguments):
        return term
    return rebuilt_term(term.operator, arguments, dict(term.parameters))
