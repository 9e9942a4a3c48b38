"""Programs read element by element: the algebra whose tensors are functions of indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from ...tensor.algebra import Function
from ...tensor.operator import NUMBERS, Numbers, regroup, window_count
from ...tensor.sizes import Dim, Size, product
from ...tensor.types import DType
from . import endless
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
from .functions import absolute, applied, logarithm
from .indices import (
    ZERO,
    Index,
    Unprovable,
    Var,
    border,
    divide,
)
from .maxima import largest
from .roots import separated
from .runs import runs
from .scalars import HALF, ZERO_POLY, Call, Element, Item, Poly
from .signs import nonnegative, positive


class Elements:
    """A tensor as a function from indices to the value of that element."""

    __slots__ = ("_at", "_known", "shape")

    def __init__(self, shape: Sequence[Dim], at: Callable[[tuple[Index, ...]], Scalar]) -> None:
        self.shape = tuple(shape)
        self._at = at
        self._known: dict[tuple[str, ...], Scalar] = {}

    def at(self, indices: Sequence[Index]) -> Scalar:
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

    def input(self, name: str, shape: Sequence[Dim]) -> Elements:
        return Elements(shape, lambda at: Scalar(of_base(Element(name, at))))

    def constant(self, value: Fraction | float) -> Elements:
        if not isinstance(value, Fraction):
            return self._infinity(negative=value < 0)
        poly = constant(value)
        return Elements((), lambda at: Scalar(poly))

    def _infinity(self, negative: bool) -> Elements:
        """A number like any other; only a program that has it too may be compared with this one."""
        poly = of_base(Call("infinity", []))
        value = needing(Scalar(negated(poly) if negative else poly), Need.FINITE, poly)
        return Elements((), lambda at: value)

    def iota(self, shape: Sequence[Dim], axis: int) -> Elements:
        return Elements(shape, lambda at: Scalar(of_index(at[axis])))

    # Pointwise

    def _map(self, function: Callable[..., Scalar], *operands: Elements) -> Elements:
        rank = max(len(operand.shape) for operand in operands)
        shape: list[Dim] = [1] * rank
        for operand in operands:
            for axis, size in enumerate(operand.shape):
                if size != 1:
                    shape[axis] = size

        def at(indices: tuple[Index, ...]) -> Scalar:
            return function(*(operand.at(indices if operand.shape else ()) for operand in operands))

        return Elements(shape, at)

    def add(self, x: Elements, y: Elements) -> Elements:
        return self._map(_added, x, y)

    def subtract(self, x: Elements, y: Elements) -> Elements:
        return self.add(x, self.negative(y))

    def multiply(self, x: Elements, y: Elements) -> Elements:
        return self._map(_multiplied, x, y)

    def divide(self, x: Elements, y: Elements) -> Elements:
        return self._map(_divided, x, y)

    def negative(self, x: Elements) -> Elements:
        return self._map(lambda a: Scalar(negated(a.poly), a.sure, a.demands), x)

    def exp(self, x: Elements) -> Elements:
        return self._map(lambda a: Scalar(exponential(a.poly), *met(a)), x)

    def log(self, x: Elements) -> Elements:
        return self._map(_log, x)

    def sqrt(self, x: Elements) -> Elements:
        return self._map(_root, x)

    def absolute(self, x: Elements) -> Elements:
        return self._map(lambda a: Scalar(absolute(a.poly), a.sure, a.demands), x)

    def maximum(self, x: Elements, y: Elements) -> Elements:
        def of(a: Scalar, b: Scalar) -> Scalar:
            return Scalar(largest([((), a.poly), ((), b.poly)]), *met(a, b))

        return self._map(of, x, y)

    def minimum(self, x: Elements, y: Elements) -> Elements:
        return self.negative(self.maximum(self.negative(x), self.negative(y)))

    def compare(self, how: str, x: Elements, y: Elements) -> Elements:
        def of(a: Scalar, b: Scalar) -> Scalar:
            if endless.endless(a) or endless.endless(b):
                call = Call(f"{how}{endless.OPAQUE}", [a.poly, b.poly])
            else:
                call = Call(how, [minus(a.poly, b.poly)])
            return Scalar(of_base(call), *met(a, b))

        return self._map(of, x, y)

    def select(self, where: Elements, x: Elements, y: Elements) -> Elements:
        return self._map(_selected, where, x, y)

    def function(self, function: Function, *arguments: Elements) -> Elements:
        if function.means is not None:
            found: Elements = function.means(self, *arguments)
            return found

        def of(*operands: Scalar) -> Scalar:
            polys = [operand.poly for operand in operands]
            found = Scalar(applied(function, polys), *met(*operands))
            found = endless.function_of(found, function.name, *operands)
            return _powered(found, *operands) if function.name == "pow" else found

        return self._map(of, *arguments)

    def cast(self, x: Elements, dtype: str) -> Elements:
        if dtype not in (DType.I32, DType.BOOL):
            return x
        return self._map(lambda a: Scalar(of_base(Call(f"cast {dtype}", [a.poly])), *met(a)), x)

    # Over axes

    def _runs(
        self, extents: Sequence[Dim], body: Callable[[tuple[Index, ...]], Scalar]
    ) -> list[tuple[tuple[Var, ...], Scalar]]:
        return runs(extents, body, self._unrolled)

    def _total(self, extent: Dim, body: Callable[[Index], Scalar]) -> Scalar:
        """The sum of the body over an index."""
        poly, parts = ZERO_POLY, []
        for bound, part in self._runs([extent], lambda at: endless.total_of(body(at[0]))):
            poly = plus(poly, summed(part.poly, bound))
            parts.append(part)
        return Scalar(poly, *met(*parts))

    def sum(self, x: Elements, axes: Sequence[int]) -> Elements:
        for axis in axes:
            x = self._sum(x, axis)
        return x

    def _sum(self, x: Elements, axis: int) -> Elements:
        def at(indices: tuple[Index, ...]) -> Scalar:
            return self._total(
                x.shape[axis], lambda k: x.at((*indices[:axis], k, *indices[axis + 1 :]))
            )

        return Elements((*x.shape[:axis], 1, *x.shape[axis + 1 :]), at)

    def largest(self, x: Elements, axes: Sequence[int]) -> Elements:
        def at(indices: tuple[Index, ...]) -> Scalar:
            parts = self._runs(
                [x.shape[axis] for axis in axes],
                lambda at: x.at(_placed(indices, axes, at)),
            )
            items: list[Item] = [(bound, part.poly) for bound, part in parts]
            if not items:
                raise Unprovable("the largest of nothing")
            return Scalar(largest(items), *met(*(part for _, part in parts)))

        kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        return Elements(kept, at)

    def matmul(self, x: Elements, y: Elements) -> Elements:
        lead = [
            two if one == 1 else one for one, two in zip(x.shape[:-2], y.shape[:-2], strict=True)
        ]

        def at(indices: tuple[Index, ...]) -> Scalar:
            *front, row, column = indices

            def product_at(k: Index) -> Scalar:
                a, b = x.at((*front, row, k)), y.at((*front, k, column))
                return _multiplied(a, b)

            return self._total(x.shape[-1], product_at)

        return Elements((*lead, x.shape[-2], y.shape[-1]), at)

    def size(self, x: Elements, axis: int) -> Elements:
        poly = of_size(x.shape[axis])
        return Elements((), lambda at: Scalar(poly))

    # Structure

    def broadcast(self, x: Elements, shape: Sequence[Dim]) -> Elements:
        return Elements(shape, lambda at: x.at(at if x.shape else ()))

    def reshape(self, x: Elements, shape: Sequence[Dim]) -> Elements:
        new = tuple(shape)
        if new == x.shape:
            return x
        groups = regroup(self, x.shape, new)

        def at(indices: tuple[Index, ...]) -> Scalar:
            found: list[Index] = [ZERO] * len(x.shape)
            for left, right in groups:
                _regrouped(indices, new, right, found, x.shape, left)
            return x.at(found)

        return Elements(new, at)

    def transpose(self, x: Elements, axes: Sequence[int]) -> Elements:
        where = {axis: place for place, axis in enumerate(axes)}
        return Elements(
            [x.shape[axis] for axis in axes],
            lambda at: x.at([at[where[axis]] for axis in range(len(axes))]),
        )

    def slice(self, x: Elements, axis: int, start: Dim, stop: Dim, step: int) -> Elements:
        length = stop - start
        if step > 1:
            length = self.over(length + (-self.value(length) % step), step, "slice")

        def at(indices: tuple[Index, ...]) -> Scalar:
            moved = indices[axis].times(step).shifted(start)
            if length == 1:
                moved = Index((), start)
            return x.at((*indices[:axis], moved, *indices[axis + 1 :]))

        return Elements((*x.shape[:axis], length, *x.shape[axis + 1 :]), at)

    def concatenate(self, xs: Sequence[Elements], axis: int) -> Elements:
        whole: Dim = 0
        for x in xs:
            whole = whole + x.shape[axis]

        def at(indices: tuple[Index, ...]) -> Scalar:
            index, start = indices[axis], Index((), 0).constant
            for x in xs[:-1]:
                if border(index, start + x.shape[axis]):
                    break
                start = start + x.shape[axis]
            else:
                x = xs[-1]
            return x.at((*indices[:axis], index.shifted(0 - start), *indices[axis + 1 :]))

        first = xs[0].shape
        return Elements((*first[:axis], whole, *first[axis + 1 :]), at)

    def pad(self, x: Elements, axis: int, low: Dim, high: Dim, value: Fraction) -> Elements:
        size = x.shape[axis]

        def at(indices: tuple[Index, ...]) -> Scalar:
            index = indices[axis]
            inner = (*indices[:axis], index.shifted(0 - low), *indices[axis + 1 :])
            try:
                outside = (low != 0 and border(index, low)) or not border(index, low + size)
            except Unprovable:
                inside = of_base(Call(f"within {low} {low + size}", [of_index(index)]))
                element = x.at(inner)
                rest = multiply(minus(constant(1), inside), constant(value))
                return Scalar(plus(multiply(inside, element.poly), rest), NOTHING, element.demands)
            return Scalar(constant(value)) if outside else x.at(inner)

        return Elements((*x.shape[:axis], low + size + high, *x.shape[axis + 1 :]), at)

    def diagonal(self, x: Elements) -> Elements:
        return Elements(x.shape[:-1], lambda at: x.at((*at, at[-1])))

    def windows(self, x: Elements, axis: int, window: Dim, stride: int, dilation: int) -> Elements:
        places = window_count(NUMBERS, x.shape[axis], window, stride, dilation)

        def at(indices: tuple[Index, ...]) -> Scalar:
            moved = indices[axis].times(stride).plus(indices[axis + 1].times(dilation))
            return x.at((*indices[:axis], moved, *indices[axis + 2 :]))

        return Elements((*x.shape[:axis], places, window, *x.shape[axis + 1 :]), at)

    def shape(self, x: Elements) -> tuple[Dim, ...]:
        return x.shape


def _placed(
    indices: Sequence[Index], axes: Sequence[int], values: Sequence[Index]
) -> tuple[Index, ...]:
    found = list(indices)
    for axis, value in zip(axes, values, strict=True):
        found[axis] = value
    return tuple(found)


def _regrouped(
    indices: Sequence[Index],
    new: Sequence[Dim],
    right: Sequence[int],
    found: list[Index],
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
    return endless.sum_of(Scalar(plus(a.poly, b.poly), *met(a, b)), a, b)


def _multiplied(a: Scalar, b: Scalar) -> Scalar:
    return endless.product_of(Scalar(multiply(a.poly, b.poly), *met(a, b)), a, b)


def _divided(a: Scalar, b: Scalar) -> Scalar:
    below = raised(b.poly, Fraction(-1))
    found = endless.quotient_of(Scalar(multiply(a.poly, below), *met(a, b)), a, b)
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
    if endless.endless(where):
        truth = of_base(Call(f"truth{endless.OPAQUE}", [truth]))
    return Scalar(of_base(Call("select", [truth, a.poly, b.poly])), sure, demands)
