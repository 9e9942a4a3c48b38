"""Rows of what loops and branches compute: a loop over blocks of rows, where its body lets it.

Problem: a recurrence, such as an RNN over time, does the same for every row of its batch. Its rows
can be computed by themselves if, in every turn, rows of the carried values need the same rows of
the carried values alone.

Method: what is asked of a result is asked of it at the end of the body and pulled back to the
body's start. What a carried value is asked for there, it must be asked for at the end as well; this
is repeated until nothing is added. Where a value is asked for in two ways, or whole in one turn and
by rows in another, rows depend on each other and there is no rule.

Example, `h, _ = scan(lambda h, x: (tanh(h @ w + x), None), h0, xs)` with h of 512 rows: rows of h
at the end of a turn need the same rows of h and of x, so a block of rows runs through all turns by
itself, and xs, whose axis 0 is time, is needed by rows along axis 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from jax import lax

from ...capture.jax_types import Leaf
from .demands import Pulled, Target, pull
from .equations import Equation, Flat, FlatValue, flatten_jaxpr
from .frames import Frame, Parts, Whole
from .rules import WHOLE, Demand, RowRequirement, Rows
from .rules import requirement as of_primitive


def requirement(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    """What an equation needs for rows of a result, loops and branches included."""
    match equation.name:
        case "scan":
            return _scan(equation, result, rows)
        case "while":
            return _while(equation, result, rows)
        case "cond":
            return _branches(equation, result, rows)
    return of_primitive(equation, result, rows)


class _Inputs:
    """How the inputs of a body are fed: whole, or as rows that are there already."""

    def __init__(self, values: Sequence[FlatValue], demands: Sequence[Demand]) -> None:
        self._pairs = list(zip(values, demands, strict=True))

    def feed(self, arrays: Sequence[Leaf], whole: Whole, parts: Parts) -> None:
        for (value, demand), array in zip(self._pairs, arrays, strict=True):
            if demand is WHOLE:
                whole[value.number] = array
            else:
                parts[value.number, demand] = array


def _settled(
    body: Flat,
    carried: Sequence[FlatValue],
    demands: dict[int, Demand],
    extra: Sequence[Target] = (),
) -> tuple[Pulled, dict[int, Demand]] | None:
    """Pulls demands on what is carried until start and end of the body agree; None if never."""
    demands = dict(demands)
    while True:
        targets = [(body.outputs[at], demand) for at, demand in sorted_items(demands)]
        pulled = pull(body, [*targets, *extra], requirement)
        if pulled is None:
            return None
        before = len(demands)
        # What a turn needs of a carried value, the turn before has to give: it becomes a demand on
        # the end of the body. There are as many carried values as there can be rounds.
        for at, value in enumerate(carried):
            asked = pulled.inputs[value.number]
            if not asked:
                continue
            # Two different demands on one value cannot both be carried: rows would have to meet.
            if len(asked) > 1 or demands.setdefault(at, next(iter(asked))) not in asked:
                return None
        if len(demands) == before:
            return pulled, demands


def sorted_items(demands: dict[int, Demand]) -> list[tuple[int, Demand]]:
    return [(at, demands[at]) for at in sorted(demands)]


def _single(asked: frozenset[Demand]) -> Demand:
    """What to give where this is asked for: rows if it is always the same rows, else all."""
    return next(iter(asked)) if len(asked) == 1 else WHOLE


def _moved(demand: Demand, by: int) -> Demand:
    return WHOLE if demand is WHOLE else Rows(demand.axis + by, demand.shift)


def _scan(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    params = equation.params
    constants, carries = params["num_consts"], params["num_carry"]
    body = flatten_jaxpr(params["jaxpr"])
    groups = (
        body.inputs[:constants],
        body.inputs[constants : constants + carries],
        body.inputs[constants + carries :],
    )
    stacked = result >= carries
    if stacked and rows.axis == 0:
        return None  # axis 0 of what is stacked is time
    extra: list[Target] = [(body.outputs[result], _moved(rows, -1))] if stacked else []
    # A slice of what is stacked has no axis of time, so its rows are along one axis less.
    settled = _settled(body, groups[1], {} if stacked else {result: rows}, extra)
    if settled is None:
        return None
    pulled, demands = settled
    ask = [[_single(pulled.inputs[value.number]) for value in group] for group in groups]
    # Carried values that this result does not depend on are left out of the loop.
    carried = [at for at, _ in sorted_items(demands)]
    frame = Frame(pulled)
    feeds = (
        _Inputs(groups[0], ask[0]),
        _Inputs([groups[1][at] for at in carried], [demands[at] for at in carried]),
        _Inputs(groups[2], ask[2]),
    )

    def emit(operands: Sequence[Leaf], count: int, start: Leaf) -> Leaf:
        starts = [operands[constants + at] for at in carried]

        def turn(state: list[Leaf], slices: list[Leaf]) -> tuple[list[Leaf], list[Leaf]]:
            whole: Whole = {}
            parts: Parts = {}
            for feed, arrays in zip(feeds, (operands[:constants], state, slices), strict=True):
                feed.feed(arrays, whole, parts)
            values = frame.compute(frame.prepare(whole), parts, start, count)
            return values[: len(carried)], values[len(carried) :]

        final, stacks = lax.scan(
            turn,
            starts,
            list(operands[constants + carries :]),
            length=params["length"],
            reverse=params["reverse"],
            unroll=params["unroll"],
        )
        return stacks[0] if stacked else final[carried.index(result)]

    return RowRequirement(
        operands=(
            *ask[0],
            *(demands.get(at, WHOLE) for at in range(carries)),
            *(_moved(demand, 1) for demand in ask[2]),
        ),
        emit=emit,
    )


def _while(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    params = equation.params
    tested, constants = params["cond_nconsts"], params["body_nconsts"]
    condition, body = flatten_jaxpr(params["cond_jaxpr"]), flatten_jaxpr(params["body_jaxpr"])
    test = pull(condition, [(condition.outputs[0], WHOLE)], requirement)
    if test is None:
        return None
    carried_values = body.inputs[constants:]
    # When a loop ends is for all rows together, so what is asked for that is needed whole.
    demands: dict[int, Demand] = {
        at: WHOLE for at, value in enumerate(condition.inputs[tested:]) if test.inputs[value.number]
    }
    if demands.setdefault(result, rows) is WHOLE:
        return None
    settled = _settled(body, carried_values, demands)
    if settled is None:
        return None
    pulled, demands = settled
    ask = [_single(pulled.inputs[value.number]) for value in body.inputs[:constants]]
    carried = [at for at, _ in sorted_items(demands)]
    frame, test_frame = Frame(pulled), Frame(test)
    feed_constants = _Inputs(body.inputs[:constants], ask)
    feed_state = _Inputs([carried_values[at] for at in carried], [demands[at] for at in carried])

    def emit(operands: Sequence[Leaf], count: int, start: Leaf) -> Leaf:
        test_constants = operands[:tested]
        body_constants = operands[tested : tested + constants]
        starts = [operands[tested + constants + at] for at in carried]

        def goes_on(state: list[Leaf]) -> Leaf:
            whole: Whole = {
                value.number: array
                for value, array in zip(condition.inputs[:tested], test_constants, strict=True)
            }
            for at, array in zip(carried, state, strict=True):
                if demands[at] is WHOLE:
                    whole[condition.inputs[tested + at].number] = array
            return test_frame.compute(test_frame.prepare(whole), {}, 0, 0)[0]

        def turn(state: list[Leaf]) -> list[Leaf]:
            whole: Whole = {}
            parts: Parts = {}
            feed_constants.feed(body_constants, whole, parts)
            feed_state.feed(state, whole, parts)
            return frame.compute(frame.prepare(whole), parts, start, count)

        return lax.while_loop(goes_on, turn, starts)[carried.index(result)]

    return RowRequirement(
        operands=(
            *([WHOLE] * tested),
            *ask,
            *(demands.get(at, WHOLE) for at in range(len(carried_values))),
        ),
        emit=emit,
    )


def _branches(equation: Equation, result: int, rows: Rows) -> RowRequirement | None:
    pulled_branches = []
    for branch in equation.params["branches"]:
        body = flatten_jaxpr(branch)
        pulled = pull(body, [(body.outputs[result], rows)], requirement)
        if pulled is None:
            return None
        pulled_branches.append(pulled)
    asked: list[frozenset[Demand]] = [
        frozenset().union(
            *(pulled.inputs[pulled.flat.inputs[at].number] for pulled in pulled_branches)
        )
        for at in range(len(equation.inputs) - 1)
    ]
    ask = [_single(demands) for demands in asked]

    def emit(operands: Sequence[Leaf], count: int, start: Leaf) -> Leaf:
        index, *values = operands

        def branch(pulled: Pulled) -> Leaf:
            frame, feed = Frame(pulled), _Inputs(pulled.flat.inputs, ask)

            def run(*arrays: Leaf) -> Leaf:
                whole: Whole = {}
                parts: Parts = {}
                feed.feed(arrays, whole, parts)
                return frame.compute(frame.prepare(whole), parts, start, count)[0]

            return run

        return lax.switch(index, [branch(pulled) for pulled in pulled_branches], *values)

    return RowRequirement(operands=(WHOLE, *ask), emit=emit)
