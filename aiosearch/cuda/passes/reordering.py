"""Another order of a nest's statements, in which more of them are independent.

    for (i..n) {                                     for (t..n) {
      for (j < i) {                                    for (i > t) a[i][t] /= a[t][t];
        for (k < j) a[i][j] -= a[i][k] * a[k][j];      for (i > t) for (j > t)
        a[i][j] /= a[j][j]; } ... }                      a[i][j] -= a[i][t] * a[t][j]; }

On the left, each place waits for those on its left. On the right, all that a step touches is
independent: what the first statement does in iteration (i, j, k) is done at time k, what the second
does in (i, j) at time j. A *time* is one of a statement's counters. All choices are tried, of which
a nest has few, and those are offered that keep every dependence: if an iteration of S comes before
one of T, and both touch one place, T's time must not be less. Where the times are equal, S has to
stand in front of T; two statements that need each other first rule a choice out. Iterations of one
statement at one time stay in their order.

The loops of a statement without its time have to be bounded by what bounded that: k < j becomes
j > t. A bound is put on the innermost counter in it, and as a loop with bounds has iterations only
where the lower is below the upper, that bounds the loops around it in turn. A loop with two lower
bounds, of which neither is always the greater, is not written: then the nest stays as it is.
"""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir.operations import (
    Compute,
    ConstantOperand,
    For,
    IrValue,
    Load,
    Operand,
    Operation,
    Region,
    Store,
    results,
    used,
)
from ..ir.types import ScalarType
from .coarsening import NewValues
from .dependences import CountedRange, NestAccess, Relation
from .effects import AffineForm, Definitions
from .rewriter import substituted
from .simplification import simplified

_MOST_STATEMENTS = 8
_MOST_CHOICES = 100


@dataclass(frozen=True, slots=True)
class Statement:
    """A `Store` with what it is computed from, in its `loops`."""

    operations: tuple[Operation, ...]
    loops: tuple[CountedRange, ...]
    accesses: tuple[NestAccess, ...]


Meets = Callable[
    [NestAccess, NestAccess, Mapping[IrValue, Relation], tuple[IrValue, IrValue, Relation]], bool
]
"""Whether two accesses can meet where counters are in a relation, and so are the counter of the
first and another one of the second."""


def statements(
    loop: For,
    outer: tuple[CountedRange, ...],
    ranged: Callable[[For, Sequence[CountedRange]], CountedRange | None],
    accessed: Callable[[Region, tuple[CountedRange, ...]], list[NestAccess]],
) -> list[Statement]:
    """The stores of a nest in order; none if anything but a `For` that counts up is around them."""
    collected: list[Statement] = []

    def visit(
        block: Region, loops: tuple[CountedRange, ...], arithmetic: Sequence[Operation]
    ) -> bool:
        pure = list(arithmetic)
        lines = list(arithmetic)
        for operation in block.operations:
            match operation:
                case Compute():
                    pure.append(operation)
                    lines.append(operation)
                case Load():
                    lines.append(operation)
                case Store():
                    whole = simplified(Region((*lines, operation)))
                    around = (*outer, *loops)
                    listed = tuple(accessed(whole, around))
                    collected.append(Statement(whole.operations, loops, listed))
                    # Arithmetic goes with every later store that needs it; what is read does not.
                    lines = list(pure)
                case For(step=1, carried=()):
                    bounds = ranged(operation, (*outer, *loops))
                    if bounds is None or not visit(operation.body, (*loops, bounds), pure):
                        return False
                    lines = list(pure)
                case _:
                    return False
        return True

    bounds = ranged(loop, outer)
    if bounds is None or loop.step != 1 or not visit(loop.body, (bounds,), ()):
        return []
    # What is read once for several stores belongs to none of them alone.
    defined = {item for first in collected for line in first.operations for item in results(line)}
    inside = {item.counter for first in collected for item in first.loops}
    reads = [used(Region(first.operations)) - inside for first in collected]
    return [] if any(defined & item for item in reads) else collected


def orders(
    listed: Sequence[Statement], outer: Sequence[CountedRange], meets: Meets
) -> Iterator[tuple[list[int], tuple[CountedRange, ...]]]:
    """The statements in the order of one step, as places in `listed`, and the loop of each that is
    its time."""
    if not 1 < len(listed) <= _MOST_STATEMENTS:
        return
    choices = itertools.product(*(reversed(item.loops) for item in listed))
    for times in itertools.islice(choices, _MOST_CHOICES):
        # Innermost counters come first: those leave the most loops outside of them independent.
        if all(item is times[0] for item in times) and times[0] is listed[0].loops[0]:
            continue  # as it is written
        # For each statement those that have to be done in front of it in the same step.
        before: dict[int, set[int]] = {place: set() for place in range(len(listed))}
        pairs = itertools.product(range(len(listed)), repeat=2)
        if all(
            _keeps(listed, times, first, second, outer, meets, before) for first, second in pairs
        ):
            try:
                yield list(graphlib.TopologicalSorter(before).static_order()), times
            except graphlib.CycleError:
                continue


def _keeps(
    listed: Sequence[Statement],
    times: Sequence[CountedRange],
    first: int,
    second: int,
    outer: Sequence[CountedRange],
    meets: Meets,
    before: dict[int, set[int]],
) -> bool:
    """Whether what the second does behind the first stays behind; `before` notes which of the two
    has to stand in front."""
    here, there = listed[first], listed[second]
    shared = [left for left, right in zip(here.loops, there.loops, strict=False) if left is right]
    same = {item.counter: Relation.SAME for item in outer}
    levels: list[dict[IrValue, Relation]] = []
    for place, item in enumerate(shared):
        around = {above.counter: Relation.SAME for above in shared[:place]}
        levels.append({**same, **around, item.counter: Relation.LESS})
    if first < second:
        levels.append({**same, **{item.counter: Relation.SAME for item in shared}})
    # Counters that both have are one counter each in the relations, and the times may be two.
    clock = times[first].counter, times[second].counter
    for a, b in itertools.product(here.accesses, there.accesses):
        for relations in levels:
            if meets(a, b, relations, (*clock, Relation.GREATER)):
                return False
            if first != second and meets(a, b, relations, (*clock, Relation.SAME)):
                before[second].add(first)
    return True


class Rewriting:
    """Writes a nest in another order, of new values whose `definitions` are added."""

    def __init__(self, numbers: NewValues, definitions: Definitions) -> None:
        self._numbers = numbers
        self._definitions = definitions

    def rewritten(
        self, listed: Sequence[Statement], order: Sequence[int], times: Sequence[CountedRange]
    ) -> For | None:
        """The `For` over the times; none where bounds are more than this can write."""
        type = times[0].counter.type
        if any(item.counter.type is not type for item in times):
            return None
        # A statement that begins later has loops without iterations until then.
        low, high = min(item.low for item in times), max(item.high for item in times)
        clock = self._numbers.value(type, "t")
        lines: list[Operation] = []
        for place in order:
            nest = self._nest(listed[place], times[place], clock, (low, high))
            if nest is None:
                return None
            lines += nest
        body = Region(tuple(lines))
        end = ConstantOperand(high + 1, type)
        at = times[0].loop.at
        return For(clock, ConstantOperand(low, type), end, 1, (), (), body, (), at)

    def _nest(
        self,
        statement: Statement,
        time: CountedRange,
        clock: IrValue,
        span: tuple[int, int],
    ) -> list[Operation] | None:
        """The loops of a statement but that of its `time`, around what it does."""
        counters = {item.counter: self._numbers.value(item.counter.type, item.counter.hint)
                    for item in statement.loops}  # fmt: skip
        counters[time.counter] = clock
        boxes = {counters[item.counter]: (item.low, item.high) for item in statement.loops}
        boxes[clock] = span
        remaining = [item for item in statement.loops if item is not time]
        names = [counters[item.counter] for item in remaining]
        # Forms that are not negative in the statement's iterations.
        forms: list[AffineForm] = []
        for item in statement.loops:
            counter = AffineForm(((counters[item.counter], 1),), 0)
            least, greatest = (_renamed(form, counters) for form in (item.least, item.greatest))
            forms += [counter.plus(least, -1), greatest.plus(counter, -1)]
        bounds: list[tuple[AffineForm, AffineForm]] = []
        derived: list[AffineForm] = []
        for place in reversed(range(len(names))):
            name, inner = names[place], names[place + 1 :]
            mine = [
                form
                for form in (*forms, *derived)
                if any(value == name for value, _ in form.terms)
                and not any(value in inner for value, _ in form.terms)
            ]
            pair = _bounds(mine, name, boxes)
            if pair is None:
                return None
            bounds.insert(0, pair)
            # An iteration of this loop is one of the loops around it, too, which it bounds so.
            derived.append(pair[1].plus(pair[0], -1))
        for form in forms:  # what bounds the time itself has to hold in the whole loop over it
            if not any(value in names for value, _ in form.terms) and _extreme(form, boxes) < 0:
                return None
        return self._written(statement, remaining, bounds, counters)

    def _written(
        self,
        statement: Statement,
        remaining: Sequence[CountedRange],
        bounds: Sequence[tuple[AffineForm, AffineForm]],
        counters: Mapping[IrValue, IrValue],
    ) -> list[Operation]:
        lines = self._copied(statement.operations, counters)
        for item, (least, greatest) in reversed(list(zip(remaining, bounds, strict=True))):
            around: list[Operation] = []
            counter = counters[item.counter]
            high = replace(greatest, constant=greatest.constant + 1)
            low, end = (
                computed(form, counter.type, self._numbers, around) for form in (least, high)
            )
            added = (line for line in around if isinstance(line, Compute))
            self._definitions.of.update({line.result: line for line in added})
            loop = For(counter, low, end, 1, (), (), Region(tuple(lines)), (), item.loop.at)
            lines = [*around, loop]
        return lines

    def _copied(
        self, operations: Sequence[Operation], counters: Mapping[IrValue, IrValue]
    ) -> list[Operation]:
        """Operations with values of their own, which `_definitions` has."""
        names: dict[IrValue, IrValue] = dict(counters)
        for operation in operations:
            for result in results(operation):
                names[result] = self._numbers.value(result.type, result.hint)
        copied: list[Operation] = []
        for operation in substituted(Region(tuple(operations)), names).operations:
            if isinstance(operation, Compute | Load):
                operation = replace(operation, result=names[operation.result])
                self._definitions.of[operation.result] = operation
            copied.append(operation)
        return copied


def computed(
    form: AffineForm, type: ScalarType, numbers: NewValues, lines: list[Operation]
) -> Operand:
    """The value of a form, from `lines` that are added."""
    total: Operand = ConstantOperand(form.constant, type)
    for value, factor in form.terms:
        operand = value
        if value.type is not type:
            operand = numbers.value(type)
            lines.append(Compute(operand, "cast", (value,)))
        product, following = (numbers.value(type) for _ in range(2))
        lines.append(Compute(product, "mul", (operand, ConstantOperand(factor, type))))
        lines.append(Compute(following, "add", (product, total)))
        total = following
    return total


def _renamed(form: AffineForm, counters: Mapping[IrValue, IrValue]) -> AffineForm:
    terms = [(counters.get(value, value), factor) for value, factor in form.terms]
    return AffineForm.of(terms, form.constant)


def _extreme(form: AffineForm, boxes: Mapping[IrValue, tuple[int, int]]) -> float:
    """The least value of a form over `boxes`; minus infinity where one is missing."""
    least: float = form.constant
    for value, factor in form.terms:
        if value not in boxes:
            return -float("inf")
        least += min(factor * end for end in boxes[value])
    return least


def _bounds(
    forms: Sequence[AffineForm], counter: IrValue, boxes: Mapping[IrValue, tuple[int, int]]
) -> tuple[AffineForm, AffineForm] | None:
    """The greatest lower and the least upper bound of a `counter`, if one always is that."""
    lower: list[AffineForm] = []
    upper: list[AffineForm] = []
    for form in forms:
        factor = dict(form.terms)[counter]
        remaining = AffineForm.of(
            [item for item in form.terms if item[0] != counter], form.constant
        )
        if factor == 1:
            lower.append(AffineForm((), 0).plus(remaining, -1))
        elif factor == -1:
            upper.append(remaining)
        else:
            return None
    first = next(
        (item for item in lower if all(_extreme(item.plus(low, -1), boxes) >= 0 for low in lower)),
        None,
    )
    last = next(
        (
            item
            for item in upper
            if all(_extreme(high.plus(item, -1), boxes) >= 0 for high in upper)
        ),
        None,
    )
    return None if first is None or last is None else (first, last)


__all__ = ["Rewriting", "Statement", "orders", "statements"]
