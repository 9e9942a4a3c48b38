"""Programs that widen half types to add them up, as JAX's do."""

from __future__ import annotations

from aiosearch.devices import device
from aiosearch.superoptimizer import Space, superoptimize
from aiosearch.superoptimizer.uncasting import uncast
from aiosearch.tensor import Program, Term, apply, tensor

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
