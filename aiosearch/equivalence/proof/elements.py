"""Programs read element by element: the algebra whose tensors are functions of indices.

Problem: a proof for all shapes cannot hold arrays. `IndexedTensor` is a shape of symbolic sizes and
a function from index expressions to the value of that element; evaluating a program with
`ElementAlgebra` composes these functions, and asking the output for element [i, j] runs them.

Example: `sum(transpose(X), axes=[0])` at [0, j] asks transpose for [k, j], which asks X for [j, k]:
the value is Σ over k < n of X[j, k]. A reshape of [n·4] to [n, 4] maps [i, j] to the row-major
position 4·i + j. The opposite reshape has to write one index as two digits; it raises
`SplitNeeded`, and the caller starts again with i = 4·high + low.

Invariant: the value is the real function of the program; kernels, grids and layouts leave no trace,
only which elements meet. Cost: each distinct element of each term is computed once
(`IndexedTensor._known`). See docs/why/verdicts.md.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ...tensor.algebra import Function
from ...tensor.operator import NUMBERS, Numbers, regroup, window_count
from ...tensor.operators.indexing import (
    argmax_by_comparison,
    cumulative_by_comparison,
    index_inside,
    scatter_add_by_comparison,
    take_by_comparison,
)
from ...tensor.sizes import Dim, Size, product
from ...tensor.types import DType
from . import infinity
from .arithmetic import (
    at_one_place,
    constant,
    exponential,
    minus,
    multiply,
    negated,
    of_base,
    of_index,
    of_size,
    plus,
    raised,
    summed,
    taken_out,
)
from .conditions import NOTHING, Conditions, Need, Scalar, met, needing
from .functions import absolute, applied, logarithm, maximum_of
from .indices import ZERO, IndexSum, Unprovable, Var, border, divide, index_ranges
from .normal_form import (
    HALF,
    ZERO_POLY,
    CutElement,
    Element,
    FunctionCall,
    Item,
    Poly,
    nonnegative,
    positive,
)
from .roots import separated
from .rules import Rule, fire
from .sums import is_equality
from .work import spend


@dataclass(frozen=True, slots=True)
class CutValue:
    """What is known of a value whose definition a proof leaves out; see `ElementAlgebra.cut`."""

    positive: bool
    nonnegative: bool
    partial: bool
    """Whether it may be undefined, if only at single points."""
    infinite: bool


class IndexedTensor:
    """A tensor as a function from indices to the `Scalar` of that element."""

    __slots__ = ("_at", "_known", "shape")

    def __init__(self, shape: Sequence[Dim], at: Callable[[tuple[IndexSum, ...]], Scalar]) -> None:
        self.shape = tuple(shape)
        self._at = at
        self._known: dict[tuple[str, ...], Scalar] = {}

    def at(self, indices: Sequence[IndexSum]) -> Scalar:
        """The element at `indices`; an axis of size one has only the index 0, which broadcasts."""
        clamped = tuple(
            ZERO if size == 1 else index for index, size in zip(indices, self.shape, strict=True)
        )
        key = tuple(index.key({}) for index in clamped)
        element = self._known.get(key)
        if element is None:
            spend()
            element = self._known[key] = self._at(clamped)
        return element


class ElementAlgebra(Numbers):
    """The operators on `IndexedTensor`; `values` holds an example of each named size."""

    def __init__(
        self,
        values: Mapping[str, int],
        unrolled: int = 1,
        *,
        finite: bool = False,
        exponentials: bool = False,
        strict: bool = False,
    ) -> None:
        self.values = values
        self._unrolled = unrolled
        """Sums over at most this many places, where their number is fixed, are written out."""
        self._finite = finite
        """Whether the original takes no infinity, so that what a candidate asks of it is decided.

        Where the original asks, as `where(isfinite(x), x, 0)` does, no candidate may leave it out.
        """
        self._exponentials = exponentials
        """Whether tanh is written as exponentials, rather than a function known by name."""
        self._strict = strict
        """Whether 0/0 stands in the way of a proof, also where a choice leaves it out."""

    def value(self, dim: Dim) -> int:
        """The size of `dim` in the example; raises `Unprovable` for an unknown name."""
        number = dim.at(self.values) if isinstance(dim, Size) else dim
        if not isinstance(number, int):
            raise Unprovable(f"the size {dim} is not known")
        return number

    def input(self, name: str, shape: Sequence[Dim]) -> IndexedTensor:
        """An input: each of its elements is a base of its own."""
        return IndexedTensor(shape, lambda at: Scalar(of_base(Element(name, at))))

    def cut(self, name: str, shape: Sequence[Dim], value: CutValue) -> IndexedTensor:
        """A `value` of which no more is known: like an input, under what its definition needs.

        What else takes it has to be defined wherever it is, so that where it may be undefined that
        it is not is a condition, which only what takes it too can meet.
        """

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            if value.infinite:
                # Signs of an infinite value are not claimed: exp(-∞) is not above zero.
                plain = of_base(CutElement(name, indices, positive=False, nonnegative=False))
                poly = of_base(FunctionCall("infinity", [plain]))
                scalar = needing(Scalar(poly), Need.FINITE, poly)
            else:
                base = CutElement(name, indices, value.positive, value.nonnegative)
                scalar = Scalar(of_base(base))
            return needing(scalar, Need.REAL, scalar.poly) if value.partial else scalar

        return IndexedTensor(shape, at)

    def constant(self, value: Fraction | float) -> IndexedTensor:
        """A rational number, or infinity."""
        if not isinstance(value, Fraction):
            return self._infinity(negative=value < 0)
        poly = constant(value)
        return IndexedTensor((), lambda at: Scalar(poly))

    def _infinity(self, negative: bool) -> IndexedTensor:
        """A number like any other; only a program that has it too is compared with this one."""
        poly = of_base(FunctionCall("infinity", []))
        value = needing(Scalar(negated(poly) if negative else poly), Need.FINITE, poly)
        return IndexedTensor((), lambda at: value)

    def iota(self, shape: Sequence[Dim], axis: int) -> IndexedTensor:
        """The position along `axis`, as a number."""
        return IndexedTensor(shape, lambda at: Scalar(of_index(at[axis])))

    # Pointwise

    def _map(self, function: Callable[..., Scalar], *operands: IndexedTensor) -> IndexedTensor:
        """Applies `function` to the elements of broadcast operands."""
        rank = max(len(operand.shape) for operand in operands)
        shape: list[Dim] = [1] * rank
        for operand in operands:
            for axis, size in enumerate(operand.shape):
                # Sizes are equal or one, as the evaluator has checked: whichever is not one is the
                # broadcast size.
                if size != 1:
                    shape[axis] = size

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            return function(*(operand.at(indices if operand.shape else ()) for operand in operands))

        return IndexedTensor(shape, at)

    def add(self, x: IndexedTensor, y: IndexedTensor) -> IndexedTensor:
        return self._map(_added, x, y)

    def subtract(self, x: IndexedTensor, y: IndexedTensor) -> IndexedTensor:
        return self.add(x, self.negative(y))

    def multiply(self, x: IndexedTensor, y: IndexedTensor) -> IndexedTensor:
        return self._map(_multiplied, x, y)

    def divide(self, x: IndexedTensor, y: IndexedTensor) -> IndexedTensor:
        def of(a: Scalar, b: Scalar) -> Scalar:
            # 0/0 is how jax writes NaN, and `_selected` what is chosen in its place.
            return (
                _undefined()
                if not (a.poly.terms or b.poly.terms or self._strict)
                else (_divided(a, b))
            )

        return self._map(of, x, y)

    def negative(self, x: IndexedTensor) -> IndexedTensor:
        return self._map(lambda a: Scalar(negated(a.poly), a.sure, a.demands), x)

    def exp(self, x: IndexedTensor) -> IndexedTensor:
        return self._map(lambda a: Scalar(exponential(a.poly), *met(a)), x)

    def log(self, x: IndexedTensor) -> IndexedTensor:
        return self._map(_log, x)

    def sqrt(self, x: IndexedTensor) -> IndexedTensor:
        return self._map(_root, x)

    def absolute(self, x: IndexedTensor) -> IndexedTensor:
        return self._map(lambda a: Scalar(absolute(a.poly), a.sure, a.demands), x)

    def maximum(self, x: IndexedTensor, y: IndexedTensor) -> IndexedTensor:
        """A `Maximum` of two values that run over no variable."""

        def of(a: Scalar, b: Scalar) -> Scalar:
            return Scalar(maximum_of([((), a.poly), ((), b.poly)]), *met(a, b))

        return self._map(of, x, y)

    def minimum(self, x: IndexedTensor, y: IndexedTensor) -> IndexedTensor:
        """`-max(-x, -y)`."""
        return self.negative(self.maximum(self.negative(x), self.negative(y)))

    def compare(self, how: str, x: IndexedTensor, y: IndexedTensor) -> IndexedTensor:
        """0 or 1, known by the difference of the operands."""

        def of(a: Scalar, b: Scalar) -> Scalar:
            if self._finite and (truth := _against_infinity(how, a, b)) is not None:
                fire(Rule.FINITE)
                return truth
            # ∞ - x says nothing of x: both operands are kept, under a name that nothing simplifies.
            if infinity.is_infinite(a) or infinity.is_infinite(b):
                call = FunctionCall(f"{how}{infinity.OPAQUE}", [a.poly, b.poly])
            else:
                call = FunctionCall(how, [minus(a.poly, b.poly)])
            return Scalar(of_base(call), *met(a, b))

        return self._map(of, x, y)

    def select(self, where: IndexedTensor, x: IndexedTensor, y: IndexedTensor) -> IndexedTensor:
        return self._map(_selected, where, x, y)

    def function(self, function: Function, *arguments: IndexedTensor) -> IndexedTensor:
        """A function by its definition, or by name and symmetry."""
        if function.name == "tanh" and self._exponentials:
            return self._map(_tanh, *arguments)
        if function.means is not None:
            composed: IndexedTensor = function.means(self, *arguments)
            return composed

        def of(*operands: Scalar) -> Scalar:
            polys = [operand.poly for operand in operands]
            scalar = Scalar(applied(function, polys), *met(*operands))
            scalar = infinity.function_of(scalar, function.name, *operands)
            return _powered(scalar, *operands) if function.name == "pow" else scalar

        return self._map(of, *arguments)

    def cast(self, x: IndexedTensor, dtype: str) -> IndexedTensor:
        """Casts to `i32` and `bool` are functions known by name.

        Float casts do nothing to reals.
        """
        if dtype not in (DType.I32, DType.BOOL):
            return x
        return self._map(
            lambda a: Scalar(of_base(FunctionCall(f"cast {dtype}", [a.poly])), *met(a)), x
        )

    # At computed places

    def take(self, x: IndexedTensor, indices: IndexedTensor, axis: int) -> IndexedTensor:
        """By comparison, where what does not depend on the place is there once: the index, which
        is moved inside, is a single place."""
        compared = take_by_comparison(self, x, indices, axis)
        inside = index_inside(self, x, indices, axis)

        def at(position: tuple[IndexSum, ...]) -> Scalar:
            element = compared.at(position)
            poly = at_one_place(element.poly, inside.at(position).poly, x.shape[axis])
            return Scalar(poly, element.sure, element.demands)

        return IndexedTensor(compared.shape, at)

    def scatter_add(
        self, x: IndexedTensor, indices: IndexedTensor, updates: IndexedTensor, axis: int
    ) -> IndexedTensor:
        return scatter_add_by_comparison(self, x, indices, updates, axis)

    def argmax(self, x: IndexedTensor, axis: int) -> IndexedTensor:
        return argmax_by_comparison(self, x, axis)

    def cumulative(
        self, x: IndexedTensor, axis: int, reduction: str, reverse: bool
    ) -> IndexedTensor:
        return cumulative_by_comparison(self, x, axis, reduction, reverse)

    # Over axes

    def _runs(
        self, extents: Sequence[Dim], body: Callable[[tuple[IndexSum, ...]], Scalar]
    ) -> list[tuple[tuple[Var, ...], Scalar]]:
        """The body over all indices below `extents`, in cases; see `index_ranges`."""
        return index_ranges(extents, body, self._unrolled)

    def _total(self, extent: Dim, body: Callable[[IndexSum], Scalar]) -> Scalar:
        """The sum of `body` over an index below `extent`."""
        poly, parts = ZERO_POLY, []
        for bound, part in self._runs([extent], lambda at: infinity.total_of(body(at[0]))):
            poly = plus(poly, summed(part.poly, bound))
            parts.append(part)
        return Scalar(poly, *met(*parts))

    def sum(self, x: IndexedTensor, axes: Sequence[int]) -> IndexedTensor:
        """Sums one axis after the other."""
        for axis in axes:
            x = self._sum(x, axis)
        return x

    def _sum(self, x: IndexedTensor, axis: int) -> IndexedTensor:
        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            return self._total(
                x.shape[axis], lambda k: x.at((*indices[:axis], k, *indices[axis + 1 :]))
            )

        return IndexedTensor((*x.shape[:axis], 1, *x.shape[axis + 1 :]), at)

    def largest(self, x: IndexedTensor, axes: Sequence[int]) -> IndexedTensor:
        """A `Maximum` over the indices along `axes`."""

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            parts = self._runs(
                [x.shape[axis] for axis in axes],
                lambda at: x.at(_with_indices(indices, axes, at)),
            )
            items: list[Item] = [(bound, part.poly) for bound, part in parts]
            if not items:
                raise Unprovable("the largest of nothing")
            return Scalar(maximum_of(items), *met(*(part for _, part in parts)))

        shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        return IndexedTensor(shape, at)

    def matmul(self, x: IndexedTensor, y: IndexedTensor) -> IndexedTensor:
        """`Σ over k of x[..., row, k]·y[..., k, column]`."""
        lead = [
            right if left == 1 else left
            for left, right in zip(x.shape[:-2], y.shape[:-2], strict=True)
        ]

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            *front, row, column = indices

            def product_at(k: IndexSum) -> Scalar:
                a, b = x.at((*front, row, k)), y.at((*front, k, column))
                return _multiplied(a, b)

            return self._total(x.shape[-1], product_at)

        return IndexedTensor((*lead, x.shape[-2], y.shape[-1]), at)

    def size(self, x: IndexedTensor, axis: int) -> IndexedTensor:
        """The size of an axis as a number."""
        poly = of_size(x.shape[axis])
        return IndexedTensor((), lambda at: Scalar(poly))

    # Structure

    def broadcast(self, x: IndexedTensor, shape: Sequence[Dim]) -> IndexedTensor:
        return IndexedTensor(shape, lambda at: x.at(at if x.shape else ()))

    def reshape(self, x: IndexedTensor, shape: Sequence[Dim]) -> IndexedTensor:
        """Maps new indices to old ones by their row-major position within each group of axes."""
        new = tuple(shape)
        if new == x.shape:
            return x
        # Axes are grouped so that both sides of a group have one product: the position is computed
        # within a group, and indices outside of it stay untouched.
        groups = regroup(self, x.shape, new)

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            old_indices: list[IndexSum] = [ZERO] * len(x.shape)
            for left, right in groups:
                _regrouped(indices, new, right, old_indices, x.shape, left)
            return x.at(old_indices)

        return IndexedTensor(new, at)

    def transpose(self, x: IndexedTensor, axes: Sequence[int]) -> IndexedTensor:
        where = {axis: place for place, axis in enumerate(axes)}
        return IndexedTensor(
            [x.shape[axis] for axis in axes],
            lambda at: x.at([at[where[axis]] for axis in range(len(axes))]),
        )

    def slice(self, x: IndexedTensor, axis: int, start: Dim, stop: Dim, step: int) -> IndexedTensor:
        """Index i reads `start + step·i`."""
        length = stop - start
        # ceil(length/step), for symbolic sizes: rounded up to a multiple, which the example shows,
        # then divided.
        if step > 1:
            length = self.over(length + (-self.value(length) % step), step, "slice")

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            moved = indices[axis].times(step).shifted(start)
            # A single place: its index is 0, and mentioning the variable would keep equal elements
            # apart.
            if length == 1:
                moved = IndexSum((), start)
            return x.at((*indices[:axis], moved, *indices[axis + 1 :]))

        return IndexedTensor((*x.shape[:axis], length, *x.shape[axis + 1 :]), at)

    def concatenate(self, xs: Sequence[IndexedTensor], axis: int) -> IndexedTensor:
        """Reads the operand that the index falls into; `border` asks for cases at the seams."""
        whole: Dim = 0
        for x in xs:
            whole = whole + x.shape[axis]

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            index, start = indices[axis], IndexSum((), 0).constant
            for x in xs[:-1]:
                # `border` answers for all sizes or raises `CasesNeeded`, so that each case reads a
                # single operand.
                if border(index, start + x.shape[axis]):
                    break
                start = start + x.shape[axis]
            else:
                x = xs[-1]
            return x.at((*indices[:axis], index.shifted(0 - start), *indices[axis + 1 :]))

        first = xs[0].shape
        return IndexedTensor((*first[:axis], whole, *first[axis + 1 :]), at)

    def pad(
        self, x: IndexedTensor, axis: int, low: Dim, high: Dim, value: Fraction
    ) -> IndexedTensor:
        """Reads the operand or the padding; where that is undecided, a `within` mask chooses."""
        size = x.shape[axis]

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            index = indices[axis]
            inner = (*indices[:axis], index.shifted(0 - low), *indices[axis + 1 :])
            try:
                outside = (low != 0 and border(index, low)) or not border(index, low + size)
            except Unprovable:
                # The border falls into the middle of a digit: no range of one variable describes
                # it, so a mask keeps both readings, and the element's conditions are only demanded.
                inside = of_base(FunctionCall(f"within {low} {low + size}", [of_index(index)]))
                element = x.at(inner)
                padding = multiply(minus(constant(1), inside), constant(value))
                return Scalar(
                    plus(multiply(inside, element.poly), padding), NOTHING, element.demands
                )
            return Scalar(constant(value)) if outside else x.at(inner)

        return IndexedTensor((*x.shape[:axis], low + size + high, *x.shape[axis + 1 :]), at)

    def diagonal(self, x: IndexedTensor) -> IndexedTensor:
        return IndexedTensor(x.shape[:-1], lambda at: x.at((*at, at[-1])))

    def windows(
        self, x: IndexedTensor, axis: int, window: Dim, stride: int, dilation: int
    ) -> IndexedTensor:
        """Place i of window w reads `stride·i + dilation·w`."""
        places = window_count(NUMBERS, x.shape[axis], window, stride, dilation)

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            moved = indices[axis].times(stride).plus(indices[axis + 1].times(dilation))
            return x.at((*indices[:axis], moved, *indices[axis + 2 :]))

        return IndexedTensor((*x.shape[:axis], places, window, *x.shape[axis + 1 :]), at)

    def shape(self, x: IndexedTensor) -> tuple[Dim, ...]:
        return x.shape


def _with_indices(
    indices: Sequence[IndexSum], axes: Sequence[int], values: Sequence[IndexSum]
) -> tuple[IndexSum, ...]:
    """`indices` with others along `axes`."""
    moved = list(indices)
    for axis, value in zip(axes, values, strict=True):
        moved[axis] = value
    return tuple(moved)


def _regrouped(
    indices: Sequence[IndexSum],
    new: Sequence[Dim],
    right: Sequence[int],
    old_indices: list[IndexSum],
    old: Sequence[Dim],
    left: Sequence[int],
) -> None:
    """Reads the old axes' indices off the row-major position that the new ones give."""
    if len(left) == 1 and len(right) == 1:
        old_indices[left[0]] = indices[right[0]]
        return
    position = ZERO
    for place, axis in enumerate(right):
        # Row-major: the stride of an axis is the product of the sizes behind it.
        stride = product(new[inner] for inner in right[place + 1 :])
        position = position.plus(indices[axis].times(stride))
    for place, axis in enumerate(left):
        stride = product(old[inner] for inner in left[place + 1 :])
        old_indices[axis], position = divide(position, stride)


def _added(a: Scalar, b: Scalar) -> Scalar:
    """`a + b`, with the condition that ∞ - ∞ does not occur."""
    return infinity.sum_of(Scalar(plus(a.poly, b.poly), *met(a, b)), a, b)


def _multiplied(a: Scalar, b: Scalar) -> Scalar:
    """`a·b`, with the condition that 0·∞ does not occur."""
    return infinity.product_of(Scalar(multiply(a.poly, b.poly), *met(a, b)), a, b)


def _divided(a: Scalar, b: Scalar) -> Scalar:
    """`a/b`, with the conditions that b is not zero and ∞/∞ does not occur."""
    below = raised(b.poly, Fraction(-1))
    ratio = infinity.quotient_of(Scalar(multiply(a.poly, below), *met(a, b)), a, b)
    return _nonzero(ratio, below)


def _nonzero(scalar: Scalar, below: Poly) -> Scalar:
    """The value of `scalar`, needing each factor in the denominators of `below` not to be zero."""
    for term in below.terms:
        for base, power in term.factors:
            poly = of_base(base)
            # One condition for each factor, so that the conditions of x/(y·z) and of (x/y)/z are
            # the same set.
            if power < 0 and not positive(poly):
                scalar = needing(scalar, Need.NONZERO, poly)
    return scalar


def _root(a: Scalar) -> Scalar:
    """`√a`, needing a not to be negative unless that is seen."""
    scalar = Scalar(raised(a.poly, HALF), a.sure, a.demands)
    # The condition is stated of the reduced sign, so that √(4·x) and √x need the same thing.
    return scalar if nonnegative(a.poly) else needing(scalar, Need.NONNEGATIVE, _direction(a.poly))


def _log(a: Scalar) -> Scalar:
    """`log a`, needing a to be positive unless that is seen."""
    scalar = Scalar(logarithm(a.poly), a.sure, a.demands)
    if positive(a.poly):
        return scalar
    scalar = _nonzero(scalar, raised(a.poly, Fraction(-1)))
    return scalar if nonnegative(a.poly) else needing(scalar, Need.NONNEGATIVE, _direction(a.poly))


def _powered(scalar: Scalar, a: Scalar, power: Scalar) -> Scalar:
    """`pow(a, power)`, under the conditions of roots and quotients, or `Need.REAL` in general."""
    number = power.poly.number
    # A real power of a negative base is not real in general; of a positive one it always is.
    if number is None or number.denominator > 2:
        return scalar if positive(a.poly) else needing(scalar, Need.REAL, scalar.poly)
    if number.denominator == 2:
        root = _root(a)
        scalar = Scalar(scalar.poly, *met(scalar, root))
    return scalar if number >= 0 else _nonzero(scalar, raised(a.poly, Fraction(-1)))


def _direction(a: Poly) -> Poly:
    """What decides the sign of `a`: positive numbers, sizes and exponentials are left out."""

    if len(a.terms) != 1:
        content, sign = taken_out(a, HALF)
        for base, power in content.factors:
            if power > 0 and not positive(of_base(base)):
                sign = multiply(sign, of_base(base, power))
        return sign
    sign = constant(1 if a.terms[0].number > 0 else -1)
    for part in separated(a.terms[0]):
        for base, power in part.factors:
            sign = multiply(sign, of_base(base, power))
    return sign


def _tanh(a: Scalar) -> Scalar:
    """tanh a = (exp 2a - 1)/(exp 2a + 1), defined wherever a is."""
    fire(Rule.TANH)
    up = exponential(plus(a.poly, a.poly))
    below = raised(plus(up, constant(1)), Fraction(-1))
    return Scalar(multiply(minus(up, constant(1)), below), a.sure, a.demands)


_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


def _against_infinity(how: str, a: Scalar, b: Scalar) -> Scalar | None:
    """The comparison of a real number with infinity; `None` for any other."""
    left, right = (infinity.infinite_sign(scalar.poly) for scalar in (a, b))
    if how not in _COMPARISONS or bool(left) == bool(right):
        return None
    number = b if left else a
    if infinity.is_infinite(number):
        return None
    sides = [float("inf") * sign if sign else 0.0 for sign in (left, right)]
    # The conditions of infinity itself are left out: none is left in the value.
    return Scalar(constant(int(_COMPARISONS[how](*sides))), number.sure, number.demands)


def _undefined() -> Scalar:
    """The value of 0/0, which is none."""
    poly = of_base(FunctionCall(_UNDEFINED, []))
    return needing(Scalar(poly), Need.REAL, poly)


def _is_undefined(a: Scalar) -> bool:
    """Whether `a` is what `_undefined` gives."""
    (term,) = a.poly.terms if len(a.poly.terms) == 1 else (None,)
    bases = [base for base, _ in term.factors] if term is not None else []
    return any(isinstance(base, FunctionCall) and base.name == _UNDEFINED for base in bases)


_UNDEFINED = "undefined"
"""The name of the call that stands for 0/0."""


def _selected(where: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """`a` where `where` is true, else `b`; what only one branch needs is demanded but not sure."""
    if (chosen := where.poly.number) is not None:
        branch = a if chosen else b
        return Scalar(branch.poly, *met(where, branch))
    if _is_undefined(a) is not _is_undefined(b):
        # The choice is a real number where it is the other one, and is that there.
        condition, branch = (minus(constant(1), where.poly), b) if _is_undefined(a) else (
            where.poly, a
        )  # fmt: skip
        return needing(Scalar(branch.poly, *met(where, branch)), Need.NONZERO, condition)
    # `Need.FINITE` is no domain but a mark that infinity occurs: it holds for whichever branch has
    # it.
    either = Conditions({**a.sure.by_key, **b.sure.by_key}).only(Need.FINITE)
    sure = where.sure.and_(a.sure.common(b.sure)).and_(either)
    demands = where.demands.and_(a.demands).and_(b.demands)
    # select(c, x, x) = x, whatever c is; the conditions of c stay.
    if a.poly.key({}) == b.poly.key({}):
        return Scalar(a.poly, sure, demands)
    # Of what is zero elsewhere, a choice by equality is a product with 0 or 1: it is linear.
    if not b.poly.terms and is_equality(where.poly) and not infinity.is_infinite(a):
        return Scalar(multiply(where.poly, a.poly), sure, demands)
    truth = where.poly
    if infinity.is_infinite(where):
        truth = of_base(FunctionCall(f"truth{infinity.OPAQUE}", [truth]))
    return Scalar(of_base(FunctionCall("select", [truth, a.poly, b.poly])), sure, demands)
