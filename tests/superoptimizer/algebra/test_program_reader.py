"""Programs that widen half types to add them up, as JAX's do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from drawn import equal, small
from testkit.programs.rewrites import REWRITES, Rewrite
from testkit.random_mugraphs.algebraic_moves import moved
from testkit.random_mugraphs.mistakes import mistaken

from aiosearch.devices import device
from aiosearch.superoptimizer import Space, superoptimize
from aiosearch.superoptimizer.algebra.normal_form import WHOLE
from aiosearch.superoptimizer.algebra.program_reader import (
    LabelledTensor,
    UnsearchableError,
    read,
    read_with,
    uncast,
)
from aiosearch.tensor import DType, Program, Size, TensorError, Term, apply, literal, tensor
from aiosearch.tensor.programs import builtin

NAMES = ("rms_norm", "gated_mlp", "lora", "gqa", "qk_norm_v", "ntrans", "moe_gate")

BEYOND = {
    "moe_gate: by_logarithm",
    "linear_layernorm: mean_of_squares",
    "gqa: with_maximum",
    "attention: without_maximum",
    "moe_gate: plain_softmax",
    "moe_gate: other_shift",
}
"""Rewrites that take an axiom for logarithms, a square of many terms, or cancelling."""


def outputs(program: Program, original: Program) -> list[LabelledTensor] | None:
    """Both outputs in one reading; None where something of them is not read."""
    try:
        return read_with(program, read(original))
    except TensorError:
        return None


READ = [one for one in REWRITES if outputs(one.pair()[1], one.pair()[0]) is not None]


@pytest.mark.parametrize("rewrite", READ, ids=lambda rewrite: rewrite.name)
def test_a_rewrite_has_the_form_of_its_original(rewrite: Rewrite) -> None:
    """The same number along the same axes."""
    original, program = rewrite.pair()
    reference = read(original)
    (one,), (two,) = reference.outputs, read_with(program, reference)
    assert (one.form == two.form) == (rewrite.name not in BEYOND)
    assert one.axes == two.axes


def test_most_rewrites_by_operators_are_read() -> None:
    """What is not read moves elements about, or has kernels."""
    assert len(READ) > 20


@pytest.mark.parametrize("name", NAMES)
def test_no_wrong_program_has_the_form_of_the_reference(name: str) -> None:
    """Some mistakes change nothing; those that do are told from the reference."""
    original, random = small(name), Random(name)
    told = 0
    for _ in range(200):
        program = mistaken(moved(original, random), random)
        found = outputs(program, original)
        if found is not None and not equal(original, program, seed=1):
            told += 1
            assert found != list(read(original).outputs)
    assert told > 50


def test_axes_are_labelled_by_what_they_meet() -> None:
    """An axis of size one has no label; equal sizes are not equal labels."""
    x, w = (tensor(name, "f16", (8, 8)) for name in "XW")
    mean = apply("mean", x @ w, axes=(1,), keep=True)
    reference = read(Program("labels", (x, w), (mean,)))
    (row, inner), (again, column) = (reference.values[one].axes for one in (x, w))
    assert inner == again
    assert len({row, inner, column}) == 3
    assert all(piece == WHOLE << 4 * number for number, (piece,) in enumerate((row, inner, column)))
    assert reference.outputs[0].axes == (row, ())


@pytest.mark.parametrize(
    ("what", "program"),
    [
        ("positions", lambda x: apply("iota", shape=(4, 4), axis=0, dtype=DType.F16) * x),
        ("part of an axis", lambda x: apply("slice", x, axis=0, start=0, stop=2, step=1)),
        ("side by side", lambda x: apply("concatenate", x, x, axis=0)),
        ("division by zero", lambda x: x / (literal(0) * x)),
    ],
)
def test_what_cannot_be_searched_is_said(what: str, program: Callable[[Term], Term]) -> None:
    """By name, and not as a failure of something else."""
    x = tensor("X", "f16", (4, 4), ("row", "column"))
    with pytest.raises(UnsearchableError, match=what):
        read(Program("case", (x,), (program(x),)))


def test_two_axes_of_one_index_cannot_be_searched() -> None:
    """Such as those of a tensor that is added to its transpose."""
    x = tensor("X", "f16", (4, 4))
    with pytest.raises(UnsearchableError, match="two axes of X run over one index"):
        read(Program("case", (x,), (x + apply("transpose", x, axes=(1, 0)),)))


def test_a_size_without_a_number_cannot_be_searched() -> None:
    """The message says what to do."""
    with pytest.raises(UnsearchableError, match="give it as a number"):
        read(builtin("rms_norm", row=Size.named("n")))


def test_one_index_on_two_axes_is_not_searched() -> None:
    """Of x times its transpose a form would be the diagonal."""
    x = tensor("x", "f32", (8, 1))
    both = x * apply("transpose", x, axes=(1, 0))
    with pytest.raises(UnsearchableError, match="one index"):
        read(Program("pairs", (x,), (both,)))


X, W = tensor("X", "bf16", (4, 8)), tensor("W", "bf16", (8, 16))


def normed(x: Term) -> Term:
    """As `jax.numpy.mean` has it: the sum is one of 32 bits, and rounded."""
    squares = apply("cast", x * x, dtype="f32")
    mean = apply("sum", squares, axes=(1,), keep=True) / 8
    return x / apply("sqrt", apply("cast", mean, dtype="bf16"))


def test_widening_and_narrowing_goes() -> None:
    program = Program("norm", (X, W), (normed(X) @ W,))
    found = uncast(program)
    assert not any(term.operator.name == "cast" for term in found.terms())
    assert [one.type for one in found.outputs] == [one.type for one in program.outputs]


def test_what_would_have_another_type_stays() -> None:
    """An output of 32 bits, operands that meet in them, and truths that become numbers."""
    wide = apply("cast", X, dtype="f32")
    other = tensor("Y", "f32", (4, 8))
    truths = apply("cast", apply("less", X, apply("square", X)), dtype="bf16")
    for inputs, output in (((X,), wide), ((X, other), apply("cast", wide * other, dtype="bf16"))):
        program = Program("wide", inputs, (output,))
        assert uncast(program) is program
    assert uncast(Program("truths", (X,), (truths,))).outputs == (truths,)


async def test_one_kernel_is_found_and_verified_against_the_program_as_it_is() -> None:
    program = Program("norm", (X, W), (normed(X) @ W,))
    space = Space(kernels=1, custom_kernels=1)
    findings = await superoptimize(program, device("A100"), space=space, top=1)
    (answer,) = findings.answers
    assert answer.verdict.status.accepted
    assert [term.operator.name for term in answer.program.terms()].count("result") == 1
