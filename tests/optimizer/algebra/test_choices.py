from __future__ import annotations

from collections import Counter

from aiosearch.optimizer.algebra.fingerprints import Amounts
from aiosearch.optimizer.algebra.operator_steps import (
    LONGEST,
    KnownValue,
    OperatorCall,
    OperatorStep,
    StepChoices,
    made_of,
    step_shape,
    unused,
)
from aiosearch.tensor.sizes import Size

M, N = Size.named("m"), Size.named("n")
CALLS = (OperatorCall("add"), OperatorCall("matmul"), OperatorCall("sum"))


def amounts(**of: int) -> Amounts:
    return Amounts((), Counter(of))


A, B = KnownValue((M, N), amounts(a=1)), KnownValue((N, M), amounts(b=1))
CHOICES = StepChoices(CALLS, amounts(a=1, b=1), frozenset())


def result(step: OperatorStep, values: list[KnownValue]) -> KnownValue:
    chosen, call = [values[one] for one in step.operands], CALLS[step.call]
    found = made_of(call, [one.amounts for one in chosen])
    return KnownValue(step_shape(call, step, [one.shape for one in chosen]), found)


def ways(
    before: tuple[OperatorStep, ...], values: list[KnownValue], length: int
) -> list[tuple[OperatorStep, ...]]:
    """Every sequence of so many steps."""
    if len(before) == length:
        return [before]
    further = CHOICES.after(before, values)
    return [
        way
        for step in further
        for way in ways((*before, step), [*values, result(step, values)], length)
    ]


def test_no_steps_are_taken_in_two_orders() -> None:
    """Steps that do not depend on each other come in one order only, and no step comes twice."""
    found = ways((), [A, B], 2)
    assert len(set(found)) == len(found)
    for one, other in found:
        assert 2 in other.operands or one < other


def test_every_pair_of_independent_steps_is_taken() -> None:
    """In the one order that there is."""
    single = [step for (step,) in ways((), [A, B], 1)]
    found = set(ways((), [A, B], 2))
    for one in single:
        for other in single:
            assert one >= other or (one, other) in found


def test_every_step_can_still_be_used() -> None:
    """No more values wait to be used than the steps that are left can take in."""
    for length in range(1, 4):
        for way in ways((), [A, B], length)[:2000]:
            assert len(unused(way, 2)) - 1 <= LONGEST - length


def test_nothing_is_made_of_more_than_is_wanted() -> None:
    """Two of one input are not multiplied where only one takes part in what is wanted."""
    products = {step.operands for (step,) in ways((), [A, B], 1) if CALLS[step.call] == CALLS[1]}
    assert products == {(0, 1), (1, 0)}


def test_axes_meet_where_their_sizes_have_one_name() -> None:
    """A product over each that two values share, or over both; other axes never meet."""
    met = {
        (step.pairs, step.axes)
        for (step,) in ways((), [A, B], 1)
        if CALLS[step.call] == CALLS[1] and step.operands == (0, 1)
    }
    assert met == {
        (((0, 1),), (0,)),
        (((1, 0),), (1,)),
        (((0, 1), (1, 0)), (0,)),
        (((0, 1), (1, 0)), (1,)),
        (((0, 1), (1, 0)), (0, 1)),
    }
    assert ((0, 0),) not in {pairs for pairs, _ in met}


def test_more_axes_come_about_only_where_they_are_known() -> None:
    """Values are repeated against each other in the shapes that the program has."""
    v, w = KnownValue((M,), amounts(a=1)), KnownValue((N,), amounts(b=1))
    (add,) = (OperatorCall("add"),)
    assert list(StepChoices((add,), CHOICES.limit, frozenset()).after((), [v, w])) == []
    found = StepChoices((add,), CHOICES.limit, frozenset({("m", "n")})).after((), [v, w])
    assert list(found) == [OperatorStep(0, (0, 1))]
