from __future__ import annotations

from fractions import Fraction

from aiosearch.codegen.ir import Buffer
from aiosearch.codegen.lower.materialization import MaterializationPlan
from aiosearch.codegen.lower.value_graph import InputValue, TensorValue, ValueAlgebra
from aiosearch.tensor import DType


def given(k: ValueAlgebra, *shape: int, dtype: DType = DType.F32, name: str = "X") -> TensorValue:
    return k.make(InputValue(Buffer(name, dtype, shape)), (), shape, dtype)


def test_folds_and_what_is_wanted_are_kept() -> None:
    k = ValueAlgebra()
    x = given(k, 4, 4)
    total = k.sum(x, (1,))
    wanted = k.add(x, total)
    assert MaterializationPlan([wanted]).kept == {total, wanted}


def test_a_dear_value_is_kept_where_it_is_used_twice() -> None:
    """A cheap one is not, nor is a division by a number."""
    k = ValueAlgebra()
    x = given(k, 4, 4)
    third = k.divide(x, k.constant(Fraction(3)))
    for value, kept in (
        (k.exp(x), True),
        (k.divide(x, x), True),
        (k.add(x, x), False),
        (third, False),
    ):
        wanted = k.add(k.sqrt(value), k.negative(value))
        assert (value in MaterializationPlan([wanted]).kept) is kept


def test_of_a_value_that_is_used_twice_the_dear_part_is_kept_if_it_is_smaller() -> None:
    """One exponential for each row, and the difference again and again."""
    k = ValueAlgebra()
    x, row = given(k, 4, 4), given(k, 4, 1, name="R")
    part = k.exp(row)
    whole = k.subtract(x, part)
    kept = MaterializationPlan([k.multiply(k.negative(whole), k.absolute(whole))]).kept
    assert part in kept
    assert whole not in kept


def test_what_rows_share_is_kept_if_it_is_dear() -> None:
    """One root for each column, and not one for each element; what columns share is one anyway."""
    k = ValueAlgebra()
    x = given(k, 8, 4)
    for shape, kept in (((1, 4), True), ((8, 1), False), ((1, 1), False), ((), False)):
        root = k.sqrt(given(k, *shape, name="S"))
        for spread in (root, k.broadcast(root, (8, 4))):
            assert (root in MaterializationPlan([k.multiply(x, spread)]).kept) is kept
        doubled = k.add(root, root)
        assert (doubled in MaterializationPlan([k.multiply(x, doubled)]).kept) is kept
        cheap = k.negative(given(k, *shape, name="S"))
        assert cheap not in MaterializationPlan([k.multiply(x, cheap)]).kept


def test_a_fold_that_is_only_read_in_another_shape_is_kept_in_that() -> None:
    k = ValueAlgebra()
    total = k.sum(given(k, 4, 6), (1,))
    flat = k.reshape(total, (4,))
    uses = MaterializationPlan([k.exp(flat)])
    assert not uses.moves(flat)
    assert flat in uses.kept


def test_operands_feed_products_of_half_types_only() -> None:
    """Whatever else is made of them; what is multiplied in 32 bits feeds nothing."""
    for dtype, wanted in ((DType.BF16, True), (DType.F32, False)):
        k = ValueAlgebra()
        x, w = given(k, 4, 4, dtype=dtype), given(k, 4, 4, dtype=dtype, name="W")
        e = k.exp(x)
        assert MaterializationPlan([k.matmul(e, w)]).feeds(e) is wanted
        assert MaterializationPlan([k.matmul(e, w), k.sum(e, (1,))]).feeds(e) is wanted
        assert not MaterializationPlan([k.sum(e, (1,))]).feeds(e)


def test_what_feeds_a_product_of_half_types_is_kept_in_32_bits_for_others_alone() -> None:
    """Who multiplies it takes it rounded, and rounds it where it is made."""
    k = ValueAlgebra()
    x, w = given(k, 4, 4), given(k, 4, 4, dtype=DType.BF16, name="W")
    dear = k.divide(k.exp(x), k.exp(k.negative(x)))
    low = k.cast(dear, DType.BF16)
    doubled = k.cast(k.add(dear, dear), DType.F32)
    alone, shared = (
        MaterializationPlan([k.matmul(low, w)]),
        MaterializationPlan([k.matmul(low, w), doubled]),
    )
    assert dear not in alone.kept
    assert dear in shared.kept


def test_products_are_kept_as_all_others_take_them() -> None:
    """Scores over a root, which a softmax reads twice; a mean that each row has is no product."""
    k = ValueAlgebra()
    x, w = given(k, 4, 4), given(k, 4, 4, name="W")
    for reduction, wanted in ((k.matmul(x, w), True), (k.sum(x, (1,)), False)):
        scaled = k.divide(reduction, k.constant(Fraction(3)))
        twice = k.multiply(k.exp(scaled), k.negative(scaled))
        assert (scaled in MaterializationPlan([twice]).kept) is wanted
        other = k.add(twice, reduction)
        assert scaled not in MaterializationPlan([other]).kept


def test_long_expressions_are_kept_in_parts() -> None:
    """So that none takes more operations than a few dozen, even where each is used once."""
    k = ValueAlgebra()
    x = value = given(k, 4)
    for _ in range(500):
        value = k.add(value, x)
    assert 3 < len(MaterializationPlan([value]).kept) < 20


def test_what_is_joined_again_and_again_is_kept_in_parts() -> None:
    """Each is written twice into the next, which would be longer than memory after a while."""
    k = ValueAlgebra()
    value = given(k, 1, 9)
    for _ in range(500):
        turned = [k.slice(value, 1, start, stop, 1) for start, stop in ((4, 9), (0, 4))]
        value = k.concatenate(turned, 1)
    assert 50 < len(MaterializationPlan([value]).kept) < 250
