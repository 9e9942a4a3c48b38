"""Comparing programs in fields: what agrees, what does not, and with which chance of error."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aiosearch.equivalence.fields import FieldEvidence, compare_fields
from aiosearch.tensor import Block, Program, ShapeError, Term, apply, literal, tensor

X = tensor("X", "f32", (3, 8))
W = tensor("W", "f32", (8, 4))
Q = tensor("Q", "f32", (2, 4, 4))
K = tensor("K", "f32", (2, 4, 8))
V = tensor("V", "f32", (2, 8, 4))
x = tensor("x", "f32", (3,))
y = tensor("y", "f32", (3,))


def over(*inputs: Term) -> Callable[..., Program]:
    return lambda *outputs: Program("p", inputs, outputs)


norm, attend, one, two = over(X, W), over(Q, K, V), over(x), over(x, y)


def compare(a: Program, b: Program, seed: int = 1) -> FieldEvidence:
    return compare_fields(a, b, seed=seed)


def agree(a: Program, b: Program) -> None:
    evidence = compare(a, b)
    assert evidence.outcome == "agree", evidence
    assert evidence.bound < 1e-30
    assert evidence.draws == 2


def last(name: str, term: Term) -> Term:
    return apply(name, term, axes=(len(term.shape) - 1,), keep=True)


def half(term: Term, axis: int, which: int) -> Term:
    size = term.shape[axis] // 2  # type: ignore[operator]
    return apply("slice", term, axis=axis, start=which * size, stop=(which + 1) * size)


def attention(q: Term = Q, k: Term = K, v: Term = V) -> Program:
    weights = apply("exp", q @ k)
    return attend(weights / last("sum", weights) @ v)


def test_a_scale_moves_past_a_matmul() -> None:
    root = apply("sqrt", last("mean", X * X))
    agree(norm(apply("rms_norm", X) @ W), norm((X @ W) / root))


def test_a_mean_is_a_sum_over_the_size_under_the_root_too() -> None:
    root = apply("sqrt", last("sum", X * X)) / apply("sqrt", literal(8))
    agree(norm(apply("rms_norm", X) @ W), norm((X @ W) / root))


@pytest.mark.parametrize("wrong", [X @ W, apply("rms_norm", X * 2) @ (W * 2)])
def test_a_scale_that_is_lost_is_found_out(wrong: Term) -> None:
    evidence = compare(norm(apply("rms_norm", X) @ W), norm(wrong))
    assert evidence.outcome == "differ"
    assert (evidence.output, evidence.index) == (0, (0, 0))
    assert evidence.functions == ("sqrt",)


def test_softmax_agrees_with_and_without_subtracting_the_maximum() -> None:
    scores = Q @ K
    weights = apply("exp", scores - last("max", scores))
    stable = attend((weights @ V) / last("sum", weights))
    agree(attention(), stable)
    agree(stable, attention())


def test_attention_split_over_keys_in_two_kernels_agrees() -> None:
    first = Block((2, 2))
    q, k, v = first.load(Q, (0,)), first.load(K, (0, 2)), first.load(V, (0, 1))
    weights = apply("exp", q @ k)
    above = first.accumulate(weights @ v)
    below = first.accumulate(weights, "sum")
    parts, sums = first.results((above, (0, 2)), (below, (0, 2)))
    second = Block((2,), range=2)
    part = second.accumulate(second.load(parts, (0,), 2))
    total = second.accumulate(second.load(sums, (0,), 2))
    (out,) = second.results((part / total, (0,)))
    agree(attention(), attend(out))


def online(normalised: bool) -> Program:
    """Attention over two halves of the keys, each with a maximum of its own."""
    scores = Q @ K
    halves = []
    for which in (0, 1):
        own = half(scores, 2, which)
        largest = last("max", own)
        weights = apply("exp", own - largest)
        total, part = last("sum", weights), weights @ half(V, 1, which)
        halves.append((largest, total, part / total if normalised else part))
    (m, l1, o1), (n, l2, o2) = halves
    largest = apply("maximum", m, n)
    f, g = apply("exp", m - largest), apply("exp", n - largest)
    if normalised:
        o1, o2 = o1 * l1, o2 * l2
    return attend((o1 * f + o2 * g) / (l1 * f + l2 * g))


@pytest.mark.parametrize("normalised", [False, True])
def test_online_softmax_agrees(normalised: bool) -> None:
    agree(attention(), online(normalised))


def test_halves_of_attention_merged_by_their_logarithms_agree() -> None:
    scores = Q @ K
    sums, parts = [], []
    for which in (0, 1):
        weights = apply("exp", half(scores, 2, which))
        sums.append(apply("log", last("sum", weights)))
        parts.append(weights / last("sum", weights) @ half(V, 1, which))
    share = 1 / (1 + apply("exp", sums[1] - sums[0]))
    agree(attention(), attend(parts[0] * share + parts[1] * (1 - share)))


def test_normalised_attention_agrees_where_roots_are_in_the_exponents() -> None:
    q, v = apply("rms_norm", Q), apply("rms_norm", V)
    weights = apply("exp", q @ K)
    agree(attention(q=q, v=v), attend((weights @ v) / last("sum", weights)))


def test_attention_that_multiplies_keys_by_sums_of_queries_does_not_agree() -> None:
    first = Block((2, 4))
    q, k, v = (first.load(term, (0, 1)) for term in (Q, K, V))
    row = first.accumulate(apply("rms_norm", q), "sum")
    scores, values = first.results(
        (first.accumulate(k) * row, (0, 1)), (first.accumulate(apply("rms_norm", v)), (0, 1))
    )
    weights = apply("exp", scores)
    last_block = Block((2, 4))
    above = last_block.accumulate(last_block.load(weights @ values, (0, 1)))
    below = last_block.accumulate(last_block.load(weights, (0, 1)), "sum")
    (out,) = last_block.results((above / below, (0, 1)))
    right = attention(q=apply("rms_norm", Q), v=apply("rms_norm", V))
    assert compare(right, attend(out)).outcome == "unknown"


def test_wrong_attention_without_norms_differs() -> None:
    weights = apply("exp", Q @ K)
    late = attend((weights @ V) / last("sum", weights @ V))
    assert compare(attention(), late).outcome == "differ"
    assert compare(attention(), attend(weights @ V)).outcome == "differ"


def test_silu_is_what_it_is_made_of() -> None:
    agree(one(apply("silu", x)), one(x * apply("sigmoid", x)))
    agree(one(apply("silu", x)), one(x / (1 + apply("exp", -x))))
    agree(one(apply("silu", x)), one(x * apply("exp", x) / (apply("exp", x) + 1)))


def test_a_cube_is_not_what_it_is_the_cube_of() -> None:
    assert compare(one(x * x * x), one(x)).outcome == "differ"


def test_the_root_of_a_square_is_not_accepted_for_what_was_squared() -> None:
    evidence = compare(one(apply("sqrt", x * x)), one(x))
    assert evidence.outcome == "unknown"
    assert "root" in evidence.reason


def test_roots_that_are_no_rational_functions_differ_for_certain() -> None:
    both = apply("sqrt", x) * apply("sqrt", y)
    assert compare(two(apply("sqrt", x)), two(apply("sqrt", y))).outcome == "differ"
    assert compare(two(both), two(both + 1)).outcome == "differ"
    assert compare(two(both), two(both * x)).outcome == "differ"


def test_a_product_of_roots_may_become_the_root_of_the_product_but_not_the_reverse() -> None:
    apart, together = apply("sqrt", x) * apply("sqrt", y), apply("sqrt", x * y)
    agree(two(apart), two(together))
    assert compare(two(together), two(apart)).outcome == "unknown"


def test_functions_known_by_name_agree_for_equal_arguments_only() -> None:
    agree(one(apply("tanh", x + x)), one(apply("tanh", 2 * x)))
    agree(one(apply("gelu", x) * 2), one(x * (1 + apply("erf", x / apply("sqrt", literal(2))))))
    evidence = compare(one(apply("tanh", x)), one(apply("tanh", 2 * x)))
    assert evidence.outcome == "unknown"
    assert evidence.functions == ("tanh",)
    assert "tanh" in evidence.reason


def test_maxima_are_those_of_sets() -> None:
    agree(
        two(apply("maximum", apply("maximum", x, y), x)),
        two(apply("maximum", y, x)),
    )
    agree(
        one(apply("clamp", x, low=0, high=1)), one(apply("minimum", apply("relu", x), literal(1)))
    )
    assert compare(one(apply("relu", x)), one(x)).outcome == "unknown"


def test_a_function_that_cancels_but_is_undefined_in_regions_is_not_accepted() -> None:
    root, log = apply("sqrt", x), apply("log", x)
    for added in (root - root, root / root - 1, log - log):
        evidence = compare(one(x), one(x + added))
        assert evidence.outcome == "unknown"
        assert "original" in evidence.reason
        agree(one(x + added), one(x))
    agree(one(root), one(root + (root - root)))
    assert compare(one(x, root), one(x + (root - root), root)).outcome == "unknown"


def test_functions_that_are_defined_everywhere_may_be_added() -> None:
    total = apply("exp", x) + 1
    agree(one(x), one(x * apply("sqrt", total) / apply("sqrt", total)))
    agree(one(x), one(x + apply("log", total) - apply("log", total)))
    square = apply("sqrt", x * x + y * y)
    agree(two(x), two(x * square / square))


def test_a_quotient_by_what_is_zero_in_regions_is_not_accepted() -> None:
    positive = apply("relu", x)
    assert compare(two(y), two(y * positive / positive)).outcome == "unknown"
    agree(two(y * positive / positive), two(y))
    agree(two(y), two(y * (1 + positive) / (1 + positive)))


def test_a_comparison_that_sees_what_is_undefined_is_not_decided() -> None:
    log = apply("log", x)
    always = apply("equal", x, x)
    assert compare(one(always), one(apply("equal", log, log))).outcome == "unknown"
    assert compare(one(apply("equal", log, log)), one(always)).outcome == "unknown"
    agree(one(always), one(apply("less_equal", x, x)))


def test_sums_with_too_many_terms_are_given_up() -> None:
    inputs = tensor("x", "f32", (40,))
    total = apply("sum", 1 / (1 + apply("exp", inputs)), axes=(0,))
    other = apply("sum", apply("exp", -inputs) / (1 + apply("exp", -inputs)), axes=(0,))
    many = over(inputs)
    evidence = compare(many(1 / total), many(1 / (other + 1)))
    assert evidence.outcome == "unknown"
    assert "too many terms" in evidence.reason


def test_division_by_what_is_always_zero_is_said() -> None:
    evidence = compare(one(1 / (x - x)), one(x))
    assert evidence.outcome == "unknown"
    assert "division by zero" in evidence.reason


def masked(scores: Term) -> Term:
    seen = apply("less", X, literal(0))
    return apply("select", seen, scores, literal(-float("inf")))


def test_masks_of_infinity_agree_where_they_are_the_same() -> None:
    weights = apply("exp", masked(X * 2))
    stable = apply("exp", masked(X + X) - last("max", masked(X + X)))
    agree(
        over(X)(weights / last("sum", weights)),
        over(X)(stable / last("sum", stable)),
    )


def test_an_infinity_that_is_not_in_the_original_is_not_accepted() -> None:
    infinity = literal(float("inf"))
    evidence = compare(one(x), one(x + (infinity - infinity)))
    assert evidence.outcome == "unknown"
    assert "infinity" in evidence.reason


def test_outputs_are_compared_in_order() -> None:
    agree(one(x + x, x * x), one(2 * x, apply("square", x)))
    evidence = compare(one(x + x, x * x), one(x + x, x + x))
    assert (evidence.outcome, evidence.output, evidence.index) == ("differ", 1, (0,))


def test_programs_of_other_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match="output 0"):
        compare(one(x), one(apply("sum", x, axes=(0,))))
    with pytest.raises(ShapeError, match="1 and 2 inputs"):
        compare(one(x), two(x))


def test_no_elements_agree() -> None:
    empty = tensor("E", "f32", (2, 0))
    agree(over(empty)(apply("exp", empty)), over(empty)(empty))


def test_a_literal_that_is_a_known_prime_does_not_vanish() -> None:
    mersenne = literal(2**127 - 1)
    assert compare(one(x * mersenne), one(x * 0)).outcome == "differ"
    fooled = compare_fields(one(x * mersenne), one(x * 0), seed=1, prime=2**127 - 1)
    assert fooled.outcome == "agree"


def test_evidence_is_the_same_for_the_same_seed() -> None:
    right, wrong = norm(apply("rms_norm", X) @ W), norm(X @ W)
    assert compare(right, wrong, seed=4) == compare(right, wrong, seed=4)
    assert compare(right, right, seed=4) == compare(right, right, seed=4)
    assert compare(right, right, seed=4).seed == 4


def test_more_draws_make_the_bound_smaller() -> None:
    program = attention()
    found = [compare_fields(program, program, seed=1, draws=draws).bound for draws in (1, 2, 3)]
    assert found[0] > found[1] > found[2] > 0
    assert found[0] < 1e-20


PAIRS = {
    "product": (x * y, x * x),
    "exponential": (apply("exp", x) * apply("exp", y), apply("exp", x * y)),
    "inverse": (1 / (1 + apply("exp", x)), 1 / (1 + apply("exp", y * y))),
    "argument": (apply("tanh", x * x * y), apply("tanh", y)),
    "quotient": (x / (x + y), y / (x * x + 1)),
}


@pytest.mark.parametrize("prime", [251, 1009])
@pytest.mark.parametrize("name", sorted(PAIRS))
def test_different_programs_agree_by_chance_as_seldom_as_the_bound_says(
    name: str, prime: int
) -> None:
    """At one element; the sum of the bounds is an upper bound of the expected agreements."""
    inputs = (tensor("x", "f32", ()), tensor("y", "f32", ()))
    a, b = (_scalar(term, inputs) for term in PAIRS[name])
    found = [compare_fields(a, b, seed=seed, draws=1, prime=prime) for seed in range(1500)]
    accepted = [evidence for evidence in found if evidence.outcome == "agree"]
    assert all(evidence.bound >= 1 / prime for evidence in accepted)
    expected = 1500 * min((evidence.bound for evidence in accepted), default=1.0)
    assert len(accepted) <= expected
    assert prime > 300 or accepted


def _scalar(term: Term, inputs: tuple[Term, Term]) -> Program:
    """The same operators on scalars."""
    if term is x or term is y:
        return Program("p", inputs, (inputs[term is y],))
    below = [_scalar(argument, inputs).outputs[0] for argument in term.arguments]
    own = apply(term.operator, *below, **dict(term.parameters)) if below else term
    return Program("p", inputs, (own,))


def test_what_is_not_compared_in_time_is_unknown() -> None:
    weights = apply("exp", Q @ K)
    shares = attend((weights / last("sum", weights)) @ V)
    evidence = compare_fields(shares, shares, seed=1, until=0.0)
    assert evidence.outcome == "unknown"
    assert evidence.reason == "the time for it is over"
