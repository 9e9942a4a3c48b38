"""Programs read element by element: the algebra whose tensors are functions of indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from ...tensor.algebra import Function
from ...tensor.operator import NUMBERS, Numbers, regroup, window_count
from ...tensor.sizes import Dim, Size, product
from ...tensor.types import DType
from . import infinity
from .arithmetic import (
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
from .normal_form import HALF, ZERO_POLY, Element, FunctionCall, Item, Poly, nonnegative, positive
from .roots import separated


class IndexedTensor:
    """A tensor as a function from indices to the value of that element."""

    __slots__ = ("_at", "_known", "shape")

    def __init__(self, shape: Sequence[Dim], at: Callable[[tuple[IndexSum, ...]], Scalar]) -> None:
        self.shape = tuple(shape)
        self._at = at
        self._known: dict[tuple[str, ...], Scalar] = {}

    def at(self, indices: Sequence[IndexSum]) -> Scalar:
        own = tuple(
            ZERO if size == 1 else index for index, size in zip(indices, self.shape, strict=True)
        )
        key = tuple(index.key({}) for index in own)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._at(own)
        return found


class ElementAlgebra(Numbers):
    """Operators on elements; `values` tells sizes apart where their order has to be known."""

    def __init__(self, values: Mapping[str, int], unrolled: int = 1) -> None:
        self.values = values
        self._unrolled = unrolled
        """Sums over at most so many places, where that is a number, are written out."""

    def value(self, dim: Dim) -> int:
        found = dim.at(self.values) if isinstance(dim, Size) else dim
        if not isinstance(found, int):
            raise Unprovable(f"the size {dim} is not known")
        return found

    def input(self, name: str, shape: Sequence[Dim]) -> IndexedTensor:
        return IndexedTensor(shape, lambda at: Scalar(of_base(Element(name, at))))

    def constant(self, value: Fraction | float) -> IndexedTensor:
        if not isinstance(value, Fraction):
            return self._infinity(negative=value < 0)
        poly = constant(value)
        return IndexedTensor((), lambda at: Scalar(poly))

    def _infinity(self, negative: bool) -> IndexedTensor:
        """A number like any other; only a program that has it too may be compared with this one."""
        poly = of_base(FunctionCall("infinity", []))
        value = needing(Scalar(negated(poly) if negative else poly), Need.FINITE, poly)
        return IndexedTensor((), lambda at: value)

    def iota(self, shape: Sequence[Dim], axis: int) -> IndexedTensor:
        return IndexedTensor(shape, lambda at: Scalar(of_index(at[axis])))

    # Pointwise

    def _map(self, function: Callable[..., Scalar], *operands: IndexedTensor) -> IndexedTensor:
        rank = max(len(operand.shape) for operand in operands)
        shape: list[Dim] = [1] * rank
        for operand in operands:
            for axis, size in enumerate(operand.shape):
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
        return self._map(_divided, x, y)

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
        def of(a: Scalar, b: Scalar) -> Scalar:
            return Scalar(maximum_of([((), a.poly), ((), b.poly)]), *met(a, b))

        return self._map(of, x, y)

    def minimum(self, x: IndexedTensor, y: IndexedTensor) -> IndexedTensor:
        return self.negative(self.maximum(self.negative(x), self.negative(y)))

    def compare(self, how: str, x: IndexedTensor, y: IndexedTensor) -> IndexedTensor:
        def of(a: Scalar, b: Scalar) -> Scalar:
            if infinity.is_infinite(a) or infinity.is_infinite(b):
                call = FunctionCall(f"{how}{infinity.OPAQUE}", [a.poly, b.poly])
            else:
                call = FunctionCall(how, [minus(a.poly, b.poly)])
            return Scalar(of_base(call), *met(a, b))

        return self._map(of, x, y)

    def select(self, where: IndexedTensor, x: IndexedTensor, y: IndexedTensor) -> IndexedTensor:
        return self._map(_selected, where, x, y)

    def function(self, function: Function, *arguments: IndexedTensor) -> IndexedTensor:
        if function.means is not None:
            found: IndexedTensor = function.means(self, *arguments)
            return found

        def of(*operands: Scalar) -> Scalar:
            polys = [operand.poly for operand in operands]
            found = Scalar(applied(function, polys), *met(*operands))
            found = infinity.function_of(found, function.name, *operands)
            return _powered(found, *operands) if function.name == "pow" else found

        return self._map(of, *arguments)

    def cast(self, x: IndexedTensor, dtype: str) -> IndexedTensor:
        if dtype not in (DType.I32, DType.BOOL):
            return x
        return self._map(
            lambda a: Scalar(of_base(FunctionCall(f"cast {dtype}", [a.poly])), *met(a)), x
        )

    # Over axes

    def _runs(
        self, extents: Sequence[Dim], body: Callable[[tuple[IndexSum, ...]], Scalar]
    ) -> list[tuple[tuple[Var, ...], Scalar]]:
        return index_ranges(extents, body, self._unrolled)

    def _total(self, extent: Dim, body: Callable[[IndexSum], Scalar]) -> Scalar:
        """The sum of the body over an index."""
        poly, parts = ZERO_POLY, []
        for bound, part in self._runs([extent], lambda at: infinity.total_of(body(at[0]))):
            poly = plus(poly, summed(part.poly, bound))
            parts.append(part)
        return Scalar(poly, *met(*parts))

    def sum(self, x: IndexedTensor, axes: Sequence[int]) -> IndexedTensor:
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
        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            parts = self._runs(
                [x.shape[axis] for axis in axes],
                lambda at: x.at(_placed(indices, axes, at)),
            )
            items: list[Item] = [(bound, part.poly) for bound, part in parts]
            if not items:
                raise Unprovable("the largest of nothing")
            return Scalar(maximum_of(items), *met(*(part for _, part in parts)))

        kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        return IndexedTensor(kept, at)

    def matmul(self, x: IndexedTensor, y: IndexedTensor) -> IndexedTensor:
        lead = [
            two if one == 1 else one for one, two in zip(x.shape[:-2], y.shape[:-2], strict=True)
        ]

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            *front, row, column = indices

            def product_at(k: IndexSum) -> Scalar:
                a, b = x.at((*front, row, k)), y.at((*front, k, column))
                return _multiplied(a, b)

            return self._total(x.shape[-1], product_at)

        return IndexedTensor((*lead, x.shape[-2], y.shape[-1]), at)

    def size(self, x: IndexedTensor, axis: int) -> IndexedTensor:
        poly = of_size(x.shape[axis])
        return IndexedTensor((), lambda at: Scalar(poly))

    # Structure

    def broadcast(self, x: IndexedTensor, shape: Sequence[Dim]) -> IndexedTensor:
        return IndexedTensor(shape, lambda at: x.at(at if x.shape else ()))

    def reshape(self, x: IndexedTensor, shape: Sequence[Dim]) -> IndexedTensor:
        new = tuple(shape)
        if new == x.shape:
            return x
        groups = regroup(self, x.shape, new)

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            found: list[IndexSum] = [ZERO] * len(x.shape)
            for left, right in groups:
                _regrouped(indices, new, right, found, x.shape, left)
            return x.at(found)

        return IndexedTensor(new, at)

    def transpose(self, x: IndexedTensor, axes: Sequence[int]) -> IndexedTensor:
        where = {axis: place for place, axis in enumerate(axes)}
        return IndexedTensor(
            [x.shape[axis] for axis in axes],
            lambda at: x.at([at[where[axis]] for axis in range(len(axes))]),
        )

    def slice(self, x: IndexedTensor, axis: int, start: Dim, stop: Dim, step: int) -> IndexedTensor:
        length = stop - start
        if step > 1:
            length = self.over(length + (-self.value(length) % step), step, "slice")

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            moved = indices[axis].times(step).shifted(start)
            if length == 1:
                moved = IndexSum((), start)
            return x.at((*indices[:axis], moved, *indices[axis + 1 :]))

        return IndexedTensor((*x.shape[:axis], length, *x.shape[axis + 1 :]), at)

    def concatenate(self, xs: Sequence[IndexedTensor], axis: int) -> IndexedTensor:
        whole: Dim = 0
        for x in xs:
            whole = whole + x.shape[axis]

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            index, start = indices[axis], IndexSum((), 0).constant
            for x in xs[:-1]:
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
        size = x.shape[axis]

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            index = indices[axis]
            inner = (*indices[:axis], index.shifted(0 - low), *indices[axis + 1 :])
            try:
                outside = (low != 0 and border(index, low)) or not border(index, low + size)
            except Unprovable:
                inside = of_base(FunctionCall(f"within {low} {low + size}", [of_index(index)]))
                element = x.at(inner)
                rest = multiply(minus(constant(1), inside), constant(value))
                return Scalar(plus(multiply(inside, element.poly), rest), NOTHING, element.demands)
            return Scalar(constant(value)) if outside else x.at(inner)

        return IndexedTensor((*x.shape[:axis], low + size + high, *x.shape[axis + 1 :]), at)

    def diagonal(self, x: IndexedTensor) -> IndexedTensor:
        return IndexedTensor(x.shape[:-1], lambda at: x.at((*at, at[-1])))

    def windows(
        self, x: IndexedTensor, axis: int, window: Dim, stride: int, dilation: int
    ) -> IndexedTensor:
        places = window_count(NUMBERS, x.shape[axis], window, stride, dilation)

        def at(indices: tuple[IndexSum, ...]) -> Scalar:
            moved = indices[axis].times(stride).plus(indices[axis + 1].times(dilation))
            return x.at((*indices[:axis], moved, *indices[axis + 2 :]))

        return IndexedTensor((*x.shape[:axis], places, window, *x.shape[axis + 1 :]), at)

    def shape(self, x: IndexedTensor) -> tuple[Dim, ...]:
        return x.shape


def _placed(
    indices: Sequence[IndexSum], axes: Sequence[int], values: Sequence[IndexSum]
) -> tuple[IndexSum, ...]:
    found = list(indices)
    for axis, value in zip(axes, values, strict=True):
        found[axis] = value
    return tuple(found)


def _regrouped(
    indices: Sequence[IndexSum],
    new: Sequence[Dim],
    right: Sequence[int],
    found: list[IndexSum],
    old: Sequence[Dim],
    left: Sequence[int],
) -> None:
    """Reads the old axes' indices off the row-major position that the new ones give."""
    if len(left) == 1 and len(right) == 1:
        found[left[0]] = indices[right[0]]
        return
    position = ZERO
    for place, axis in enumerate(right):
        stride = product(new[inner] for inner in right[place + 1 :])
        position = position.plus(indices[axis].times(stride))
    for place, axis in enumerate(left):
        stride = product(old[inner] for inner in left[place + 1 :])
        found[axis], position = divide(position, stride)


def _added(a: Scalar, b: Scalar) -> Scalar:
    return infinity.sum_of(Scalar(plus(a.poly, b.poly), *met(a, b)), a, b)


def _multiplied(a: Scalar, b: Scalar) -> Scalar:
    return infinity.product_of(Scalar(multiply(a.poly, b.poly), *met(a, b)), a, b)


def _divided(a: Scalar, b: Scalar) -> Scalar:
    below = raised(b.poly, Fraction(-1))
    found = infinity.quotient_of(Scalar(multiply(a.poly, below), *met(a, b)), a, b)
    return _nonzero(found, below)


def _nonzero(scalar: Scalar, below: Poly) -> Scalar:
    """The same value, needing every factor of one over something not to be zero."""
    for term in below.terms:
        for base, power in term.factors:
            poly = of_base(base)
            if power < 0 and not positive(poly):
                scalar = needing(scalar, Need.NONZERO, poly)
    return scalar


def _root(a: Scalar) -> Scalar:
    found = Scalar(raised(a.poly, HALF), a.sure, a.demands)
    return found if nonnegative(a.poly) else needing(found, Need.NONNEGATIVE, _direction(a.poly))


def _log(a: Scalar) -> Scalar:
    found = Scalar(logarithm(a.poly), a.sure, a.demands)
    if positive(a.poly):
        return found
    found = _nonzero(found, raised(a.poly, Fraction(-1)))
    return found if nonnegative(a.poly) else needing(found, Need.NONNEGATIVE, _direction(a.poly))


def _powered(found: Scalar, a: Scalar, power: Scalar) -> Scalar:
    """A power, needing what roots and quotients do; another is a real number of a positive base."""
    number = power.poly.number
    if number is None or number.denominator > 2:
        return found if positive(a.poly) else needing(found, Need.REAL, found.poly)
    if number.denominator == 2:
        root = _root(a)
        found = Scalar(found.poly, *met(found, root))
    return found if number >= 0 else _nonzero(found, raised(a.poly, Fraction(-1)))


def _direction(a: Poly) -> Poly:
    """What decides the sign: positive numbers, sizes and exponentials are left out."""

    if len(a.terms) != 1:
        content, found = taken_out(a, HALF)
        for base, power in content.factors:
            if power > 0 and not positive(of_base(base)):
                found = multiply(found, of_base(base, power))
        return found
    found = constant(1 if a.terms[0].number > 0 else -1)
    for part in separated(a.terms[0]):
        for base, power in part.factors:
            found = multiply(found, of_base(base, power))
    return found


def _selected(where: Scalar, a: Scalar, b: Scalar) -> Scalar:
    either = Conditions({**a.sure.by_key, **b.sure.by_key}).only(Need.FINITE)
    sure = where.sure.and_(a.sure.common(b.sure)).and_(either)
    demands = where.demands.and_(a.demands).and_(b.demands)
    if a.poly.key({}) == b.poly.key({}):
        return Scalar(a.poly, sure, demands)
    truth = where.poly
    if infinity.is_infinite(where):
        truth = of_base(FunctionCall(f"truth{infinity.OPAQUE}", [truth]))
    return Scalar(of_base(FunctionCall("select", [truth, a.poly, b.poly])), sure, demands)
