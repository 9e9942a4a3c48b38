from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from testkit.kernels.lowered import adapted, attention, difference, gated, norm, split_attention
from testkit.programs.operator_graphs import drawn_graph, model
from testkit.programs.random_programs import random_program
from testkit.superoptimizer.kernel_graphs import fusion, leaves

from aiosearch.codegen.ir import ReductionKind
from aiosearch.codegen.ir.interpreter import interpret
from aiosearch.codegen.lower.lowering import lower
from aiosearch.superoptimizer.build.mugraph import BuiltKernels
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import (
    ACCUMULATORS,
    OPERATORS,
    Block,
    DType,
    Program,
    ShapeError,
    Size,
    Term,
    apply,
    literal,
    tensor,
    walk,
)
from aiosearch.tensor.programs import BUILTINS, builtin

PARTS, EACH = 4, 100
SMALL = {"head": 2, "row": 4, "rank": 2, "batch": 2, "window_height": 3, "window_width": 3}


def texts(program: Program) -> list[str]:
    return [str(kernel) for kernel in lower(program).kernels]


def stages(program: Program) -> list[list[str]]:
    return [[str(stage) for stage in kernel.stages] for kernel in lower(program).kernels]


def program(*outputs: Term) -> Program:
    return Program("program", (X, Y, V), outputs)


X = tensor("X", "f32", (4, 6))
Y = tensor("Y", "f32", (6, 8))
V = tensor("V", "f32", (6,))


@pytest.mark.parametrize("name", BUILTINS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_built_in_programs_are_computed(name: str, dtype: str) -> None:
    """At small sizes, in any type."""
    sizes = {label: SMALL.get(label, 6) for label in BUILTINS[name].sizes}
    assert not difference(builtin(name, dtype, **sizes))


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs_are_computed(part: int) -> None:
    """Every operator, with and without custom kernels and threads."""
    for seed in range(part * EACH, (part + 1) * EACH):
        assert not difference(random_program(seed), seed), seed


def test_random_programs_have_everything() -> None:
    """Every operator and accumulator is in one of those that are computed, but for what takes
    places, which `tests/capture/test_places.py` draws."""
    terms = [term for seed in range(PARTS * EACH) for term in random_program(seed).terms()]
    names = {term.operator.name for term in terms}
    assert names == OPERATORS.keys() - {"take", "scatter_add"}
    kinds = {term.parameter("kind") for term in terms if term.operator.name == "accumulate"}
    assert kinds == ACCUMULATORS.keys()


@pytest.mark.parametrize("seed", range(40))
def test_graphs_of_matrices_are_computed(seed: int) -> None:
    """Values used more than once, with moves between them."""
    assert not difference(drawn_graph(seed, most=12), seed)


@pytest.mark.parametrize("made", [norm, gated, adapted, attention, split_attention])
def test_custom_kernels_are_computed(made: Callable[[], Program]) -> None:
    assert not difference(made())


@pytest.mark.parametrize("name", ["lora", "gqa"])
def test_what_the_superoptimizer_finds_is_computed(name: str) -> None:
    """Programs of one custom kernel, with numbers that are drawn for their sizes."""
    sizes = {label: SMALL.get(label, 8) for label in BUILTINS[name].sizes}
    problem, random = fusion(builtin(name, "f32", **sizes), Space(kernels=1)), Random(name)
    for found in leaves(problem):
        if found.kernels[0].step < 0:
            graphs = list(problem.skeletons.graphs(found.kernels[0]))
            for graph in random.sample(graphs, min(6, len(graphs))):
                built = BuiltKernels(found.kernels, (graph,))
                extents = problem.builder.extents(built)
                try:
                    numbers = {one: random.choice((1, 2)) for one in extents}
                    assert not difference(problem.builder.build(built, numbers))
                except ShapeError:
                    continue


def test_a_norm_in_one_kernel_shares_its_loop() -> None:
    """Both sums run along one index, whatever the grid and the loop were."""
    assert texts(norm()) == [
        "kernel norm(X: bf16[4, 64], W: bf16[64, 32]) -> (out: bf16[4, 32])\n"
        "    for i < 4\n"
        "    for j < 32\n"
        "    for k < 64\n"
        "    t0[i, j] = sum over k of multiply(X[i, k], W[k, j])\n"
        "    t1[i] = sum over k of multiply(X[i, k], X[i, k])\n"
        "    out[i, j] = divide(t0[i, j], sqrt(divide(t1[i], 64)))"
    ]
    assert texts(norm(1, 1)) == texts(norm(8, 4)) == texts(norm())


def test_a_gated_mlp_in_one_kernel_shares_its_loop() -> None:
    assert stages(gated()) == [
        [
            "t0[i, j] = sum over k of multiply(X[i, k], W1[k, j])",
            "t1[i, j] = sum over k of multiply(X[i, k], W2[k, j])",
            "out[i, j] = multiply(multiply(t0[i, j], "
            "divide(1, add(1, exp(negative(t0[i, j]))))), t1[i, j])",
        ]
    ]


def test_attention_in_one_kernel_shares_its_keys() -> None:
    """The index that scores are written by is the one that products and sums run along."""
    assert stages(attention()) == stages(attention(1)) == [
        [
            "t0[i, j, l] = sum over m of multiply(Q[i, j, m], K[i, m, l])",
            "t1[i, j, l] = exp(t0[i, j, l])",
            "t2[i, j, k] = sum over l of multiply(t1[i, j, l], V[i, l, k])",
            "t3[i, j] = sum over l of t1[i, j, l]",
            "out[i, j, k] = divide(t2[i, j, k], t3[i, j])",
        ]
    ]  # fmt: skip


def test_scores_of_keys_split_over_blocks_are_written_in_such_parts() -> None:
    assert stages(split_attention())[0] == [
        "t0[i, j, k, l] = sum over n of multiply(Q[i, j, n], K[i, n, 16k + l])",
        "t1[i, j, k, l] = exp(t0[i, j, k, l])",
        "t2[i, j, 6k + m] = sum over l of multiply(t1[i, j, k, l], V[i, 16k + l, m])",
        "t3[i, j, k] = sum over l of t1[i, j, k, l]",
    ]


def test_a_product_of_tensors_side_by_side_is_the_sum_of_their_products() -> None:
    assert stages(adapted()) == [
        [
            "t0[i, k] = sum in f32 over l of multiply(X[i, l], A[l, k])",
            "t1[i, j] = sum over l of multiply(X[i, l], W[l, j])",
            "t2[i, j] = sum over k of multiply(t0[i, k], B[k, j])",
            "out[i, j] = add(t1[i, j], t2[i, j])",
        ]
    ]


def test_a_norm_outside_of_kernels_is_a_kernel_and_its_product_another() -> None:
    plain = builtin("rms_norm", "f32", row=4, feature=64, column=32)
    assert stages(plain) == [
        [
            "t0[i] = sum over j of multiply(X[i, j], X[i, j])",
            "t1[i, j] = divide(X[i, j], sqrt(divide(t0[i], 64)))",
        ],
        ["out[i, j] = sum over k of multiply(t1[i, k], W[k, j])"],
    ]


def test_a_softmax_is_one_kernel() -> None:
    e = apply("exp", X - apply("max", X, axes=(1,), keep=True))
    assert stages(program(e / apply("sum", e, axes=(1,), keep=True))) == [
        [
            "t0[i] = max over j of X[i, j]",
            "t1[i, j] = exp(subtract(X[i, j], t0[i]))",
            "t2[i] = sum over j of t1[i, j]",
            "out[i, j] = divide(t1[i, j], t2[i])",
        ]
    ]


def test_element_by_element_work_joins_the_product_that_it_follows() -> None:
    assert stages(program(apply("tanh", X @ Y) + literal(1))) == [
        [
            "t0[i, j] = sum over k of multiply(X[i, k], Y[k, j])",
            "out[i, j] = add(tanh(t0[i, j]), 1)",
        ]
    ]


def test_a_convolution_is_one_fold_over_window_and_channels() -> None:
    """Whose rows and columns stay apart; the border is added first."""
    conv = builtin(
        "conv_bias_relu", "f32", batch=2, height=5, width=5, channel=3,
        window_height=3, window_width=3, feature=4,
    )  # fmt: skip
    (border, *_), (reduction, _) = stages(conv)
    assert "if" in border
    assert reduction == (
        "t1[i, j, k, l] = sum over m, n, o of multiply(t0[i, j + m, k + n, o], filters[m, n, o, l])"
    )


def test_a_sum_of_a_sum_is_one() -> None:
    rows = apply("sum", X, axes=(1,), keep=False)
    assert stages(program(apply("sum", rows, axes=(0,)))) == [["out[] = sum over i, j of X[i, j]"]]


def test_a_reshaped_output_is_written_by_the_indices_of_what_is_read() -> None:
    """No place is a quotient or a remainder."""
    assert stages(program(apply("reshape", apply("exp", X), shape=(24,)))) == [
        ["out[6i + j] = exp(X[i, j])"]
    ]
    assert stages(program(apply("reshape", apply("exp", X), shape=(2, 2, 6)))) == [
        ["out[i, j, k] = exp(X[2i + j, k])"]
    ]


def test_a_costly_value_used_twice_is_kept_and_a_cheap_one_is_not() -> None:
    costly, cheap = apply("exp", X), X + literal(1)
    assert stages(program(costly + apply("sum", costly, axes=(1,), keep=True)))[0][0] == (
        "t0[i, j] = exp(X[i, j])"
    )
    (found,) = stages(program(cheap + apply("sum", cheap, axes=(1,), keep=True)))
    assert found[0] == "t0[i] = sum over j of add(X[i, j], 1)"


def test_a_fold_does_not_compute_a_costly_value_again_and_again() -> None:
    """Nor does a product prepare its operand anew for every column."""
    one = apply("exp", apply("reshape", V, shape=(1, 6)))
    assert stages(program(apply("sum", X * one, axes=(1,)))) == [
        ["t0[i] = exp(V[i])"],
        ["out[i] = sum over j of multiply(X[i, j], t0[j])"],
    ]
    assert stages(program((X * X) @ Y))[0] == ["t0[i, j] = multiply(X[i, j], X[i, j])"]


def test_what_lies_between_is_kept_in_32_bits_but_for_operands_of_products() -> None:
    """Of half types, which products take as they are."""
    e = apply("exp", tensor("A", "bf16", (4, 8)))
    w = tensor("W", "bf16", (8, 8))
    product = e @ w
    whole = product / apply("sum", product, axes=(1,), keep=True)
    module = lower(Program("p", (e.arguments[0], w), (whole,)))
    filled = {stage.target.name: stage.target.dtype for k in module.kernels for stage in k.stages}
    assert filled == {"t0": DType.BF16, "t1": DType.F32, "t2": DType.F32, "out": DType.BF16}


def test_an_operand_that_is_cast_to_a_half_type_is_kept_in_that() -> None:
    """What rows or columns share of it is rounded once; what is met once is rounded there."""
    x, w = tensor("X", "f32", (4, 6)), tensor("W", "bf16", (6, 5))
    low = apply("cast", x, dtype="bf16")
    first, product = stages(Program("mixed", (x, w), (low @ w,)))
    assert first == ["t0[i, j] = bf16(X[i, j])"]
    assert product == ["out[i, j] = sum in f32 over k of multiply(t0[i, k], W[k, j])"]
    row, weights = tensor("X", "bf16", (1, 6)), tensor("W", "f32", (6, 5))
    met_once = row @ apply("cast", weights, dtype="bf16")
    (single,) = stages(Program("single", (row, weights), (met_once,)))
    assert single == ["out[0, i] = sum in f32 over j of multiply(X[0, j], bf16(W[j, i]))"]


def test_casts_round_where_they_may_lose_something_only() -> None:
    half = tensor("H", "f16", (4,))
    given = {
        "f32": "H[i]", "f64": "f64(H[i])", "bf16": "bf16(H[i])", "i32": "i32(H[i])",
        "bool": "not_equal(H[i], 0)", "f16": "H[i]",
    }  # fmt: skip
    for dtype, text in given.items():
        cast = apply("cast", half, dtype=dtype) if dtype != "f16" else half
        found = Program("p", (half,), (apply("reshape", cast, shape=(2, 2)),))
        assert stages(found) == [[f"out[i, j] = {text.replace('[i]', '[2i + j]')}"]]


def test_numbers_are_computed_beforehand() -> None:
    scale = apply("sqrt", literal(16)) * literal(2)
    assert stages(program(X * scale)) == [["out[i, j] = multiply(X[i, j], 8)"]]


def test_an_output_may_be_an_input_or_another_output() -> None:
    """Then it is no kernel's, and there is no copy."""
    e = apply("exp", X)
    module = lower(Program("p", (X,), (e, X, e)))
    assert [one.name for one in module.outputs] == ["out0", "X", "out0"]
    assert not difference(Program("p", (X,), (e, X, e)))
    assert not lower(Program("p", (X,), (X,))).kernels


def test_an_output_that_others_are_made_of_is_read_back() -> None:
    e = apply("exp", X)
    total = apply("sum", e, axes=(1,))
    assert stages(program(e, total)) == [
        ["out0[i, j] = exp(X[i, j])", "out1[i] = sum over j of out0[i, j]"]
    ]


@pytest.mark.parametrize(
    "output",
    [
        literal(2),
        apply("broadcast", literal(2), shape=(3, 2)),
        apply("sum", X, axes=(0, 1)),
        apply("sum", tensor("E", "f32", (0, 4)), axes=(0,)),
        apply("max", tensor("E", "f32", (0, 4)), axes=(0,)),
        apply("exp", tensor("E", "f32", (0, 4))),
        tensor("E", "f32", (3, 0)) @ tensor("F", "f32", (0, 2)),
        apply("pad", tensor("E", "f32", (0, 4)), axis=0, low=1, high=1, value=3),
        apply("concatenate", tensor("E", "f32", (0, 4)), tensor("F", "f32", (2, 4)), axis=0),
        tensor("E", "f32", (1, 6)) @ Y,
        tensor("E", "f32", (1, 1)) @ tensor("F", "f32", (1, 1)),
        apply("iota", shape=(3, 2), axis=0, dtype="f16"),
    ],
)  # fmt: skip
def test_constants_scalars_and_axes_of_no_or_one_element(output: Term) -> None:
    inputs = [term for term in walk([output]) if term.operator.name == "input"]
    assert not difference(Program("p", tuple(inputs), (output,)))


def test_names_do_not_meet_those_of_inputs() -> None:
    """Even where inputs are called like what lowering makes."""
    out, t0 = tensor("out", "f32", (4, 4)), tensor("t0", "f32", (4, 4))
    assert not difference(Program("p", (out, t0), (apply("exp", (out @ t0) @ out),)))


def test_a_whole_model_is_lowered_and_a_long_chain_too() -> None:
    """What is far below is reached without calls within calls within calls."""
    assert not difference(model(1))
    long = X
    for _ in range(300):
        long = long + X
    twice = X
    for _ in range(40):
        twice = twice * twice
    w = deep = tensor("W", "f32", (2, 2))
    for _ in range(120):
        deep = deep @ w
    assert len(lower(program(long)).kernels) == len(lower(program(twice)).kernels) == 1
    assert len(lower(Program("p", (w,), (deep,))).kernels) == 120


def test_unused_results_of_a_kernel_are_not_computed() -> None:
    block = Block((2,))
    tile = block.load(X, (0,))
    total, _ = block.results(
        (block.accumulate(tile, "sum"), (0,)), (block.accumulate(apply("exp", tile)), (0,))
    )
    assert stages(program(total)) == [["out[i, 0] = sum over j of X[i, j]"]]


def test_folds_of_a_kernel_are_of_one_kind_each() -> None:
    """A maximum of sums is no fold over both."""
    found = lower(program(apply("max", apply("sum", X, axes=(1,)), axes=(0,))))
    kinds = [stage.reduction for kernel in found.kernels for stage in kernel.stages]
    assert kinds == [ReductionKind.SUM, ReductionKind.MAX]


def test_sizes_have_to_be_known() -> None:
    rows = tensor("R", "f32", (Size.named("rows"), 4))
    with pytest.raises(TypeError, match="size rows is not known"):
        lower(Program("p", (rows,), (apply("exp", rows),)))


def test_infinite_values_are_as_in_the_program() -> None:
    """Both a literal that is infinite, and a sum that becomes it."""
    limit = apply("maximum", X, literal(-np.inf))
    assert not difference(program(limit, apply("div", limit, literal(0))))
    (found,) = interpret(lower(program(apply("exp", X))), [np.full((4, 6), 1e6), 0, 0])
    assert np.isinf(found).all()
