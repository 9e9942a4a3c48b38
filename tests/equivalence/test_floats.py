"""The float layer passes right rewrites, fails wrong ones, and says when it cannot tell."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from testkit.programs.float_pairs import RIGHT, WRONG, elementwise, over, softmax

from aiosearch.equivalence.floats import SLACK, FloatStatus, compare_floats, compare_on
from aiosearch.equivalence.inputs.distributions import TIES, draw_inputs, special
from aiosearch.equivalence.inputs.draws import FLOAT_DISTRIBUTIONS
from aiosearch.equivalence.rounding.machine import MOST
from aiosearch.equivalence.runnables import ExecutedProgram
from aiosearch.tensor import DType, Program, ShapeError, Term, apply, literal, tensor
from aiosearch.tensor.floats import Array

TYPES = ("f16", "bf16", "f32", "f64")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_right_rewrite_passes_in_every_type(name: str, dtype: str, seed: int) -> None:
    evidence = compare_floats(*RIGHT[name](dtype), seed=seed)
    assert evidence.outcome == "agree", evidence.to_dict()
    assert "normal" not in evidence.skipped


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rewrite_fails_in_every_type(name: str, dtype: str) -> None:
    evidence = compare_floats(*WRONG[name](dtype))
    assert evidence.outcome == "differ"
    assert "normal" in evidence.failed


def test_a_right_rewrite_that_stores_what_overflows_half_precision_fails() -> None:
    def spelled(x: Term) -> Term:
        return x / (1 + apply("exp", -x))

    half = compare_floats(*elementwise(lambda x: apply("silu", x), spelled, "f16"))
    assert "large" in half.failed
    assert "normal" not in half.failed
    single = compare_floats(*elementwise(lambda x: apply("silu", x), spelled, "bf16"))
    assert single.outcome == "agree"


@pytest.mark.parametrize(
    ("kept", "lost"),
    [
        (lambda x: apply("expm1", x), lambda x: apply("exp", x) - 1),
        (lambda x: apply("log1p", x * x), lambda x: apply("log", 1 + x * x)),
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_digits_that_the_original_takes_care_of_may_not_be_lost(
    kept: Callable[[Term], Term], lost: Callable[[Term], Term], dtype: str
) -> None:
    """In real numbers both are the same."""
    assert "tiny" in compare_floats(*elementwise(kept, lost, dtype)).failed
    assert compare_floats(*elementwise(lost, kept, dtype)).outcome == "agree"


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_what_is_nearly_one_is_not_taken_from_one(dtype: str) -> None:
    """Few digits of it would be left; the other way round, none that were there are lost."""

    def kept(x: Term) -> Term:
        return apply("erfc", x)

    def lost(x: Term) -> Term:
        return 1 - apply("erf", x)

    assert "positive" in compare_floats(*elementwise(kept, lost, dtype)).failed
    assert compare_floats(*elementwise(lost, kept, dtype)).outcome == "agree"


def late(dtype: str) -> tuple[Program, Program]:
    """A logarithm of a softmax that subtracts the maximum first, and one that does last."""
    x = tensor("X", dtype, (16, 100))
    most = apply("max", x, axes=(1,), keep=True)
    total = apply("log", apply("sum", apply("exp", x - most), axes=(1,), keep=True))
    return Program("early", (x,), (x - most - total,)), Program("late", (x,), (x - total - most,))


def expanded(dtype: str) -> tuple[Program, Program]:
    """Squares of distances, and the sum that they come to when brackets are multiplied out."""
    x, y = tensor("X", dtype, (16, 32)), tensor("Y", dtype, (16, 32))
    left, right = apply("reshape", x, shape=(16, 1, 32)), apply("reshape", y, shape=(1, 16, 32))
    near = apply("sum", apply("square", left - right), axes=(2,))
    own = apply("sum", apply("square", x), axes=(1,), keep=True)
    other = apply("reshape", apply("sum", apply("square", y), axes=(1,)), shape=(1, 16))
    product = x @ apply("transpose", y, axes=(1, 0))
    return Program("near", (x, y), (near,)), Program("far", (x, y), (own + other - 2 * product,))


def layer_norm(dtype: str, size: int = 64) -> tuple[Program, Program]:
    """Rows that are centred and then scaled, and ones that are scaled before they are centred."""
    x = tensor("X", dtype, (16, size))
    mean = apply("mean", x, axes=(1,), keep=True)
    variance = apply("mean", apply("square", x - mean), axes=(1,), keep=True)
    scale = apply("rsqrt", variance + 1e-5)
    return over(x)((x - mean) * scale), over(x)(scale * x - scale * mean)


@pytest.mark.parametrize(
    ("pair", "dtype", "failed"),
    [
        (late, "f32", ["shifted"]),
        (expanded, "f32", ["shifted", "level"]),
        (expanded, "bf16", ["shifted"]),
        (expanded, "f16", ["level"]),
        *((layer_norm, dtype, ["level"]) for dtype in ("f32", "bf16", "f16")),
    ],
)
def test_digits_that_the_original_keeps_are_not_lost(
    pair: Any, dtype: str, failed: list[str]
) -> None:
    """Where all is far from zero, it subtracts what is near before anything is rounded."""
    evidence = compare_floats(*pair(dtype))
    assert [*evidence.failed] == failed, evidence.to_dict()


@pytest.mark.parametrize("size", [7, 64, 100])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_mean_may_be_a_product_with_a_reciprocal(dtype: str, size: int) -> None:
    """Even in a difference from what is near it: of most sizes, means are rounded anyway."""
    original, _ = layer_norm(dtype, size)
    (x,) = original.inputs
    mean = apply("sum", x, axes=(1,), keep=True) * (1 / size)
    variance = apply("sum", apply("square", x - mean), axes=(1,), keep=True) * (1 / size)
    evidence = compare_floats(original, over(x)((x - mean) / apply("sqrt", variance + 1e-5)))
    assert evidence.outcome == "agree", evidence.to_dict()


def test_every_distribution_is_reported_and_special_inputs_are_for_the_strict_policy() -> None:
    pair = RIGHT["silu"]("f32")
    assert [trial.distribution for trial in compare_floats(*pair).trials] == [*FLOAT_DISTRIBUTIONS]
    strict = compare_floats(*pair, strict=True)
    wanted = [*FLOAT_DISTRIBUTIONS, *special([term.type for term in pair[0].inputs])]
    assert [trial.distribution for trial in strict.trials] == wanted


@pytest.mark.parametrize("size", [16, 64, 300])
def test_one_infinity_tells_apart_what_many_hide(size: int) -> None:
    """Where one of sixteen elements is infinite, all of a product is NaN, whatever its order."""
    x, y, z = (
        tensor(name, "f32", shape)
        for name, shape in (("x", (size, size)), ("y", (size, 1)), ("z", (1, size)))
    )
    pair = (Program("p", (x, y, z), (one,)) for one in (x @ (y @ z), (x @ y) @ z))
    evidence = compare_floats(*pair, strict=True)
    assert evidence.outcome == "differ"
    assert any("-at-" in name for name in evidence.failed)


@pytest.mark.parametrize(
    ("known", "drawn"),
    [
        (lambda x: apply("equal", x, x), {"nans", "nan-at-0"}),
        (
            lambda x: apply("less", apply("abs", x), literal(math.inf)),
            {"nans", "infinities", "nan-at-0", "infinity-at-0"},
        ),
    ],
    ids=["nan", "infinity"],
)
def test_who_asks_for_nan_is_given_some(known: Callable[[Term], Term], drawn: set[str]) -> None:
    """What takes the place of NaN is a finite number that the original gives."""
    x = tensor("x", "f32", (16, 64))
    guarded = apply("select", known(x), x, literal(0))
    plain, guard = (Program("p", (x,), (apply("sum", one, axes=(1,)),)) for one in (x, guarded))
    kept = compare_floats(guard, guard)
    assert kept.outcome == "agree"
    assert {trial.distribution for trial in kept.trials} == {*FLOAT_DISTRIBUTIONS, TIES, *drawn}
    assert compare_floats(guard, plain).outcome == "differ"
    assert compare_floats(plain, guard).outcome == "agree"


def test_the_same_seed_gives_the_same_evidence() -> None:
    pair = RIGHT["rms_norm"]("f16")
    assert compare_floats(*pair, seed=7) == compare_floats(*pair, seed=7)
    assert compare_floats(*pair, seed=7) != compare_floats(*pair, seed=8)


def test_evidence_is_json_even_where_values_are_not_finite() -> None:
    evidence = compare_floats(*elementwise(lambda x: x, lambda x: x * 1e30 * 1e30 / 1e30 / 1e30))
    found = json.loads(json.dumps(evidence.to_dict(), allow_nan=False))
    assert found["outcome"] == "differ"
    assert found["trials"][0]["worst"]["found"] in ("inf", "-inf")


def test_evidence_reads_as_one_line() -> None:
    right = compare_floats(*RIGHT["online_softmax"]("f16"))
    assert str(right).startswith("agree on 16 distributions; at most")
    far = compare_floats(*elementwise(lambda x: (x + 1e9) - 1e9, lambda x: x))
    assert str(far).count(" skipped: rounding decides the original's value") == 1
    assert "; normal, small, " in str(far)
    assert str(far).startswith("unknown on 0 of 13 distributions; ")
    above = elementwise(*[lambda x: apply("sqrt", x - 900)] * 2)
    weak = compare_floats(*above, distributions=FLOAT_DISTRIBUTIONS)
    assert str(weak).startswith("agree on only 2 of 13 distributions; ")
    wrong = compare_floats(*elementwise(lambda x: x, lambda x: x * 2))
    assert "normal failed: the candidate loses more" in str(wrong)
    defined = compare_floats(*elementwise(lambda x: x * x / x, lambda x: x))
    assert "more defined at" in str(defined)
    assert "\n" not in str(wrong)


def test_a_candidate_may_lose_twice_what_the_original_loses_and_a_little_more() -> None:
    far = 1 + 40 * 2.0**-24
    near = 1 + 6 * 2.0**-24
    assert compare_floats(*elementwise(lambda x: x, lambda x: x * near)).outcome == "agree"
    evidence = compare_floats(*elementwise(lambda x: x, lambda x: x * far))
    assert evidence.outcome == "differ"
    assert evidence.trials[0].candidate_error > SLACK


def test_sums_that_cancel_are_not_held_to_their_own_small_size() -> None:
    x = tensor("X", "f32", (64, 256))
    make = over(x)
    halves = [apply("slice", x, axis=1, start=start, stop=start + 128) for start in (0, 128)]
    parts = [apply("sum", half, axes=(1,)) for half in halves]
    evidence = compare_floats(make(apply("sum", x, axes=(1,))), make(parts[0] + parts[1]))
    assert not evidence.failed


def test_a_sum_that_is_nothing_but_rounding_is_held_to_what_was_added_up() -> None:
    """As the gradient of the bias of an attention's keys, which the softmax does not see: it is 0
    in real numbers, and a candidate may give 0, or another rounding error, and nothing else."""
    x = tensor("x", "f32", (64, 32))
    mean = apply("mean", x, axes=(0,), keep=True)

    def total(slope: float) -> Program:
        summed = apply("sum", slope * x - mean, axes=(0,)) * (1 / 64)
        return Program("total", (x,), (summed,))

    assert compare_floats(total(1), total(1)).outcome == "agree"
    assert compare_floats(total(1), Program("none", (x,), (0 * total(1).outputs[0],))).outcome == (
        "agree"
    )
    wrong = compare_floats(total(1), total(1.01))
    assert "normal" in wrong.failed
    # A tolerance is a share of what was added up too.
    right = compare_floats(total(1), total(1), tolerance=1e-3)
    assert right.outcome == "agree"
    assert compare_floats(total(1), total(1.1), tolerance=1e-3).outcome == "differ"


def test_rows_that_are_small_are_compared_at_their_own_size() -> None:
    x = tensor("X", "f32", (4, 8))
    scale = apply("exp", apply("iota", shape=(4, 1), axis=0, dtype="f32") * -15)
    shift = apply("equal", apply("iota", shape=(4, 1), axis=0, dtype="f32"), literal(3))
    wrong = x * scale + apply("cast", shift, dtype="f32") * 1e-22
    evidence = compare_floats(over(x)(x * scale), over(x)(wrong))
    assert evidence.trials[0].status is FloatStatus.FAILED
    assert evidence.trials[0].index[0] == 3


def test_an_inaccurate_original_is_skipped_and_named() -> None:
    x = tensor("X", "f32", (16, 64))
    make = over(x)
    mean = apply("mean", x, axes=(1,), keep=True)
    far = x + 1e9
    careless = far - 1e9
    evidence = compare_floats(make(careless * 1), make(x))
    assert "normal" in evidence.skipped
    assert evidence.trials[0].reason == "rounding decides the original's value"
    assert compare_floats(make(x - mean), make(x - mean)).outcome == "agree"


def test_whether_a_value_at_the_end_of_the_range_overflows_is_not_compared() -> None:
    x = tensor("X", "f16", (8,))
    end = x * 0 + 65500
    evidence = compare_floats(over(x)(x, end), over(x)(x, end * 4 - end * 3))
    assert (evidence.outcome, evidence.undecided) == ("unknown", (1,))
    assert evidence.trials[0].undetermined == 8


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("low", [-1e9, -math.inf, "the least"])
def test_masked_scores_are_compared_and_what_is_off_is_seen(dtype: str, low: float | str) -> None:
    """By truth values; a quarter is more than any of these types loses."""
    x, mask = tensor("X", dtype, (16, 32)), tensor("M", "bool", (16, 32))
    number = literal(-MOST[DType(dtype)] if isinstance(low, str) else low)
    weights = softmax(apply("select", mask, x, number))
    make = over(x, mask)
    right = compare_floats(make(weights), make(weights))
    assert right.outcome == "agree"
    assert right.counted > 5
    assert right.trials[0].compared > 500
    assert compare_floats(make(weights), make(weights * 1.25)).outcome == "differ"


def test_an_original_that_overflows_inside_and_returns_zero_is_skipped() -> None:
    """The square overflows in half precision, so that what is divided by it is lost."""
    x = tensor("X", "f16", (4, 16))
    make = over(x)
    square = apply("square", x * 4096)
    evidence = compare_floats(make(x / square), make(x / square), distributions=["normal"])
    assert evidence.skipped == ("normal",)
    assert evidence.trials[0].reason == "the original itself is inaccurate"
    assert evidence.outcome == "unknown"


def test_where_the_original_is_nowhere_finite_nothing_is_said() -> None:
    x = tensor("X", "f32", (4, 4))
    make = over(x)
    evidence = compare_floats(make(x / 0), make(x))
    assert evidence.outcome == "unknown"
    assert evidence.trials[0].newly_defined == 16


def test_a_quotient_of_exponentials_may_be_more_defined_but_not_under_strict() -> None:
    pair = elementwise(
        lambda x, y: apply("exp", apply("log", x) - apply("log", y)), lambda x, y: x / y, count=2
    )
    evidence = compare_floats(*pair)
    assert evidence.outcome == "agree"
    assert evidence.newly_defined > 0
    assert compare_floats(*pair, strict=True).outcome == "differ"


def test_strict_demands_nan_for_nan_and_the_same_infinity() -> None:
    same = elementwise(lambda x: apply("log", x), lambda x: apply("log", x * 1))
    assert compare_floats(*same, strict=True).outcome == "agree"
    flipped = elementwise(lambda x: 1 / apply("abs", x), lambda x: 1 / x, count=1)
    evidence = compare_floats(*flipped, strict=True)
    assert evidence.outcome == "differ"


def test_special_inputs_tell_relu_from_a_product_with_zero() -> None:
    pair = elementwise(lambda x: apply("maximum", x, x * 0), lambda x: apply("relu", x))
    assert compare_floats(*pair).outcome == "agree"
    strict = compare_floats(*pair, strict=True)
    assert strict.failed == ("infinities", "infinity-at-0")


def test_a_rewrite_that_introduces_a_nan_or_an_infinity_fails() -> None:
    for candidate in (
        lambda x: x * x / x,
        lambda x: apply("sqrt", x) * apply("sqrt", x),
        lambda x: apply("log", apply("exp", x)),
        lambda x: apply("exp", apply("log", x)),
    ):
        evidence = compare_floats(*elementwise(lambda x: x, candidate))
        assert evidence.outcome == "differ"


def test_a_softmax_without_its_maximum_fails_on_large_inputs_alone() -> None:
    def with_maximum(x: Term) -> Term:
        e = apply("exp", x - apply("max", x, axes=(1,), keep=True))
        return e / apply("sum", e, axes=(1,), keep=True)

    def without(x: Term) -> Term:
        e = apply("exp", x)
        return e / apply("sum", e, axes=(1,), keep=True)

    evidence = compare_floats(*elementwise(with_maximum, without))
    assert "large" in evidence.failed
    assert "normal" not in evidence.failed


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (1, 1), (1, 5)])
def test_axes_of_size_zero_and_one_are_compared_like_others(shape: tuple[int, int]) -> None:
    x = tensor("X", "f16", shape)
    make = over(x)
    total = apply("sum", x, axes=(1,), keep=True)
    assert compare_floats(make(total * x), make(x * total)).outcome == "agree"


def test_a_scalar_output_is_compared() -> None:
    x = tensor("X", "f32", (3,))
    make = over(x)
    total = apply("sum", x, axes=(0,))
    assert compare_floats(make(total), make(total * 1)).outcome == "agree"
    assert compare_floats(make(total), make(total * 2)).outcome == "differ"


def test_an_infinite_literal_masks_what_it_is_added_to() -> None:
    x = tensor("X", "f32", (4, 8))
    make = over(x)
    column = apply("iota", shape=(4, 8), axis=1, dtype="f32")
    seen = apply("less", column, literal(5))
    masked = apply("select", seen, x, apply("broadcast", literal(float("-inf")), shape=(4, 8)))
    e = apply("exp", masked - apply("max", masked, axes=(1,), keep=True))
    soft = e / apply("sum", e, axes=(1,), keep=True)
    short = apply("slice", x, axis=1, start=0, stop=5)
    f = apply("exp", short - apply("max", short, axes=(1,), keep=True))
    sliced = f / apply("sum", f, axes=(1,), keep=True)
    padded = apply("pad", sliced, axis=1, low=0, high=3, value=0)
    evidence = compare_floats(make(soft), make(padded))
    assert evidence.outcome == "agree"
    assert not evidence.failed


def test_outputs_are_told_apart() -> None:
    x = tensor("X", "f32", (4,))
    make = over(x)
    evidence = compare_floats(make(x, x * 2), make(x, x * 3))
    assert evidence.trials[0].output == 1
    assert compare_floats(make(x, x * 2), make(x * 2, x)).outcome == "differ"


def test_integer_and_bool_inputs_are_exact() -> None:
    n, flag = tensor("N", "i32", (8,)), tensor("B", "bool", (8,))
    make = over(n, flag)
    chosen = apply("select", flag, n, n * 2)
    factor = n * (2 - apply("cast", flag, dtype="i32"))
    assert compare_floats(make(chosen), make(factor)).outcome == "agree"
    assert compare_floats(make(chosen), make(n)).outcome == "differ"


def test_programs_of_other_shapes_are_refused() -> None:
    x, y = tensor("X", "f32", (4,)), tensor("X", "f32", (5,))
    with pytest.raises(ShapeError, match="other inputs"):
        compare_floats(Program("a", (x,), (x,)), Program("b", (y,), (y,)))
    with pytest.raises(ShapeError, match="other outputs"):
        compare_floats(over(x)(x), over(x)(apply("sum", x, axes=(0,))))


def test_values_that_rounding_decides_are_counted_and_not_compared() -> None:
    x = tensor("X", "f32", (64,))
    zero = (x * 3 - x) - x * 2
    evidence = compare_floats(over(x)(x + zero * 0, zero), over(x)(x, zero * 5))
    trial = evidence.trials[0]
    assert trial.status is FloatStatus.PASSED
    assert trial.undetermined == 64
    assert np.isfinite(trial.original_error)


class OneByOne(ExecutedProgram):
    """Adds up products one after the other, as a kernel with one register would."""

    def own(self, inputs: Sequence[Array]) -> list[Array]:
        x, y = inputs
        return [np.cumsum((x * y).reshape(-1), dtype=np.float32)[-1]]


@pytest.mark.parametrize("distribution", ["level", "positive", "tiny", "normal"])
def test_another_order_of_a_long_sum_is_no_loss(distribution: str) -> None:
    """The original adds up more exactly, by rows first; both do what sums do."""
    x, y = tensor("X", DType.F32, (32, 32)), tensor("Y", DType.F32, (32, 32))
    rows = apply("sum", x * y, axes=(1,))
    program = Program("dots", (x, y), (apply("sum", rows, axes=(0,)),))
    found = compare_on(
        draw_inputs(program, distribution, 0),
        ExecutedProgram(program),
        OneByOne(program),
        "",
        False,
    )
    assert found.status is FloatStatus.PASSED, found
