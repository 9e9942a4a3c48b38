"""The choice of values that are stored in buffers; all others are computed again where they are
used.

Problem: storing every value costs memory traffic, storing none costs arithmetic that is repeated.
Which values get a buffer decides which stages there are.

Worked example: in `X / sum(exp(X))` the sum has a buffer, because it is a reduction; `exp(X)` has
none, because only the sum reads it. If `exp(X)` is also divided by that sum, as in a softmax, two
values read it and it is dear: it is stored.

Rules, from results to operands: reductions, results and what a custom kernel stores are always
kept; long expressions are kept; and what is computed again (by several readers, or for each row
anew) is kept if it has an expensive function for each element.

Invariant: a value without a buffer is written into the expressions of its readers, so every chain
of such values ends at a kept value or an input.

Cost: a few passes over the values.

See docs/why/kernels.md, "The tile IR".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...tensor.mugraph import Kernel
from ...tensor.types import HALVES
from ..ir import Operation
from ..ir.index_maps import Broadcast, Move, Reshape, Slice
from .value_graph import (
    Cast,
    Concatenation,
    LiteralValue,
    MatmulProduct,
    Padding,
    Pointwise,
    ReductionValue,
    StoredValue,
    TensorValue,
    values_below,
)

EXPENSIVE_OPERATIONS = frozenset(
    {
        Operation.DIVIDE,
        Operation.SQRT,
        Operation.EXP,
        Operation.LOG,
        Operation.EXPM1,
        Operation.LOG1P,
        Operation.TANH,
        Operation.ERF,
        Operation.ERFC,
        Operation.SIN,
        Operation.COS,
        Operation.POW,
        Operation.LGAMMA,
        Operation.DIGAMMA,
        Operation.REM,
    }
)
"""Functions whose results are worth a place in memory, rather than being computed again."""

_MOST_OPERATIONS_RECOMPUTED = 24
"""So many operations are written down again at several readers; more are worth a place in memory.
An estimate."""

_LONG_REDUCTION = 96
"""So many operations, at most, are one expression, so that compile times and registers stay
bounded. An estimate."""

_WRITTEN = Pointwise | Cast | Concatenation | Padding
"""Definitions that make an expression longer: what is joined, by all its arguments."""


class MaterializationPlan:
    """Which of the values below `roots` get a buffer, and who reads them."""

    def __init__(self, roots: Sequence[TensorValue]) -> None:
        self._roots = frozenset(roots)
        self._order = list(values_below(roots))
        self._carriers = self._find_carriers()
        self._users: dict[TensorValue, list[TensorValue]] = {value: [] for value in self._order}
        self._repeated: set[TensorValue] = set()
        """Values that are read for each row anew and differ along it: something of each column,
        say."""
        self.kept: set[TensorValue] = set()
        """Values with a buffer of their own."""
        self._count()
        self._choose()

    def moves(self, value: TensorValue) -> bool:
        """Whether `value` is only another value's elements at other places."""
        fixed = value in self._roots or value in self._carriers
        return isinstance(value.what, Move) and not fixed

    def source(self, value: TensorValue) -> TensorValue:
        """The value whose elements `value` is moved from."""
        while self.moves(value):
            (value,) = value.arguments
        return value

    def once(self, value: TensorValue) -> bool:
        """Whether only one other value is made of `value`."""
        return len(self._users[value]) == 1 and value not in self._roots

    def kept_in(self, owner: Kernel | None) -> list[TensorValue]:
        """What is kept for sure, outside of custom kernels or in `owner`, operands first."""
        return [value for value in self._order if self._is_certain(value, owner)]

    def _is_certain(self, value: TensorValue, owner: Kernel | None) -> bool:
        """Whether `value` is kept in `owner` whatever its readers turn out to be."""
        if isinstance(value.what, StoredValue):
            return owner is None
        if value.owner is not owner or value not in self.kept:
            return False
        # A reduction that only another reduction or a move reads may become one with it, so its
        # buffer is not certain yet.
        may_join = isinstance(value.what, ReductionValue) or value in self._carriers
        return value in self._roots or not (
            may_join and all(map(_may_absorb_reduction, self._users[value]))
        )

    def stored(self, kernel: Kernel) -> list[TensorValue]:
        """The values that the custom kernel stores."""
        return [v for v in self._order if isinstance(v.what, StoredValue) and v.owner is kernel]

    def feeds(self, value: TensorValue) -> bool:
        """Whether a product of half types takes `value`, which takes it in its own type.

        Its other readers then get what the program says: the rounded value.
        """
        return any(map(self._is_half_product, self._users[value]))

    def _is_half_product(self, user: TensorValue) -> bool:
        if isinstance(user.what, Concatenation):
            return self.feeds(user)
        return isinstance(user.what, MatmulProduct) and user.dtype in HALVES

    def _find_carriers(self) -> frozenset[TensorValue]:
        """The last shapes that reductions take before anything is computed of them, which are
        stored in their place.

        Each such value has all elements of the one before, and nobody else asks for that.
        """
        parents: dict[TensorValue, set[TensorValue]] = {value: set() for value in self._order}
        for value in self._order:
            for argument in value.arguments:
                parents[argument].add(value)
        carriers: set[TensorValue] = set()
        for value in self._order:
            top = value
            # Keepdims reductions are followed by reshapes and broadcasts. Storing the value after
            # them, under its final shape, spares the reader their index arithmetic.
            while len(parents[top]) == 1 and top not in self._roots:
                (parent,) = parents[top]
                if not _rearranged(parent) or parent.size != top.size:
                    break
                top = parent
            if isinstance(value.what, ReductionValue) and top is not value:
                carriers.add(top)
        return frozenset(carriers - self._roots)

    def _count(self) -> None:
        """Records who computes something of each value, through whatever moves lie between."""
        for value in self._order:
            if not self.moves(value):
                for argument in value.arguments:
                    source = self.source(argument)
                    # A move is no user: its reader is recorded as a reader of the value behind it.
                    self._users[source].append(value)
                    if self._repeats(argument, value):
                        self._repeated.add(source)

    def _repeats(self, value: TensorValue, user: TensorValue) -> bool:
        """Whether rows share what `user` reads, through whatever moves lie between."""
        if isinstance(user.what, Pointwise) and _by_rows(value.shape, user.shape):
            return True
        while self.moves(value):
            (source,) = value.arguments
            if isinstance(value.what, Broadcast) and _by_rows(source.shape, value.shape):
                return True
            value = source
        return False

    def _choose(self) -> None:
        """Chooses from results to operands: what is computed again has its operands computed again.

        That ends at what is kept, and what is dear is kept where it would be computed again.
        """
        heavy, dear = self._long(), self._expensive()
        again: set[TensorValue] = set()
        # Readers first: whether a value is computed again depends on its readers being so.
        for value in reversed(self._order):
            users = self._users[value]
            shared = len(set(users)) > 1 or value in self._repeated
            # What a repeated value is made of is repeated with it, so repetition spreads towards
            # the inputs until a kept value stops it.
            if shared or any(user in again for user in users):
                again.add(value)
            worth = value in dear or self._ends_a_product(value)
            if self._is_always_kept(value) or value in heavy or (value in again and worth):
                self.kept.add(value)
                again.discard(value)

    def _ends_a_product(self, value: TensorValue) -> bool:
        """Whether `value` is a function of a product's element and numbers alone: the product is
        then stored as that.
        """
        if not isinstance(value.what, Pointwise) or value in self._repeated:
            return False
        numberless = [
            argument for argument in value.arguments if not isinstance(argument.what, LiteralValue)
        ]
        if len(numberless) != 1:
            return False
        product = self.source(numberless[0])
        alone = product not in self._roots and set(self._users[product]) == {value}
        return alone and product.size == value.size and self._is_product(product)

    def _is_product(self, value: TensorValue) -> bool:
        while value in self._carriers:
            (value,) = value.arguments
        return isinstance(value.what, ReductionValue) and isinstance(
            value.arguments[0].what, MatmulProduct
        )

    def _is_always_kept(self, value: TensorValue) -> bool:
        """Whether `value` is kept whatever it costs."""
        stored = value in self._roots or value in self._carriers
        return stored or isinstance(value.what, ReductionValue | StoredValue)

    def _long(self) -> Collection[TensorValue]:
        """Values that take many operations, above all where they are used several times."""
        weights: dict[TensorValue, int] = {}
        heavy: set[TensorValue] = set()
        for value in self._order:
            weights[value] = 1 + sum(weights[self.source(argument)] for argument in value.arguments)
            most = _MOST_OPERATIONS_RECOMPUTED if len(self._users[value]) > 1 else _LONG_REDUCTION
            # A tree of operands is written out in full for every reader, so its size is bounded.
            if weights[value] > most and isinstance(value.what, _WRITTEN):
                heavy.add(value)
            if value in heavy or self._is_always_kept(value):
                # What has a buffer costs its readers a load, so counting begins anew.
                weights[value] = 0
        return heavy

    def _expensive(self) -> Collection[TensorValue]:
        """Values that take an expensive function for each element; one for each row, say, does not
        count.
        """
        expensive: set[TensorValue] = set()
        for value in self._order:
            sources = [
                operand
                for operand in map(self.source, value.arguments)
                if not self._is_always_kept(operand)
            ]
            # A value as large as an expensive operand repeats its cost; one that reduces it first
            # does not.
            alike = any(operand in expensive and operand.size == value.size for operand in sources)
            if _computes(value) and (_is_expensive(value) or alike):
                expensive.add(value)
        return expensive


def _by_rows(old: Sequence[int], new: Sequence[int]) -> bool:
    """Whether a shape is repeated, but not along its last axis, in which its elements differ."""
    repeated = (
        any(old_size < new_size for old_size, new_size in zip(old, new, strict=True))
        if old
        else False
    )
    return repeated and old[-1] > 1


def _may_absorb_reduction(value: TensorValue) -> bool:
    """Whether a value may be written together with a reduction that it is made of."""
    return isinstance(value.what, ReductionValue | StoredValue | Move)


def _rearranged(value: TensorValue) -> bool:
    return isinstance(value.what, Broadcast | Reshape | Slice)


def _computes(value: TensorValue) -> bool:
    return isinstance(value.what, Pointwise | Cast)


def _is_expensive(value: TensorValue) -> bool:
    """Whether computing the value itself is expensive; a division by a literal is a
    multiplication.
    """
    match value.what:
        case Pointwise(operation=Operation.DIVIDE):
            return not isinstance(value.arguments[1].what, LiteralValue)
        case Pointwise():
            return value.what.operation in EXPENSIVE_OPERATIONS
    return False
