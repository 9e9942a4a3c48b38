"""Contenders that are watched give what the original gives, wherever they are not finite."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from aiosearch.codegen.native.machine import host
from aiosearch.devices import device
from aiosearch.equivalence.floats import FloatEvidence, compare_on
from aiosearch.equivalence.runnables import ExecutedProgram
from aiosearch.measure import ArrayType
from aiosearch.optimizer.candidates.cpu_kernels import kernel_sources
from aiosearch.optimizer.candidates.generation import CandidateSource, Prepacking
from aiosearch.optimizer.candidates.gpu_kernels import gpu_kernel_sources
from aiosearch.optimizer.candidates.jax_source import renamed
from aiosearch.optimizer.candidates.nan_guard import guard_candidate
from aiosearch.tensor import Program
from aiosearch.tensor.text import parse

SOFT = """program soft(x: f32[3, 4], v: f32[4, 2]) {
  a = exp(x)
  b = div(a, sum(a, axes=[1], keep=true))
  return matmul(b, v)
}
"""
LATE = """program soft(x: f32[3, 4], v: f32[4, 2]) {
  a = exp(x)
  return div(matmul(a, v), sum(a, axes=[1], keep=true))
}
"""
OFF = LATE.replace("matmul(a, v)", "mul(matmul(a, v), 1.01)")
HUGE = np.array([[1, 2, 3, 4], [88, 88, 88, 88], [-1, 0, 1, 2]], np.float32)
"""The exponentials of the second row are finite; their sum is not."""
VALUES = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32)


def contender(source: str, function: str, before: Prepacking | None = None) -> CandidateSource:
    return CandidateSource("rewritten 1", 1, b"", source, function, ("proved",), before)


def loaded(source: str) -> dict[str, Any]:
    module: dict[str, Any] = {}
    exec(source, module)
    return module


def quick() -> CandidateSource:
    (found,) = kernel_sources(parse(LATE), host(), 2, 1)
    return contender(found.source, found.function)


def packed(program: Program, constant: tuple[int, ...]) -> CandidateSource:
    found = next(
        one for one in kernel_sources(program, host(), 2, 8, constant) if one.positions == constant
    )
    before = Prepacking(found.positions, found.pack, found.types)
    return contender(found.source, found.function, before)


def test_where_it_has_overflown_it_is_the_original() -> None:
    one = guard_candidate(quick(), parse(SOFT))
    assert one.watched
    function = jax.jit(loaded(one.source)[one.function])
    bare = jax.jit(loaded(quick().source)["soft"])
    assert not np.isfinite(bare(HUGE, VALUES)).all()
    exp = np.exp(HUGE)
    with np.errstate(over="ignore"):
        wanted = exp / exp.sum(axis=1, keepdims=True) @ VALUES
    assert wanted[1].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(function(HUGE, VALUES), wanted, rtol=1e-6)


def test_where_all_is_finite_the_original_is_not_run() -> None:
    """Here it would give something else."""
    twice = parse(SOFT.replace("matmul(b, v)", "mul(matmul(b, v), 2)"))
    one = guard_candidate(quick(), twice)
    function = jax.jit(loaded(one.source)[one.function])
    bare = jax.jit(loaded(quick().source)["soft"])
    assert np.array_equal(function(HUGE % 4, VALUES), bare(HUGE % 4, VALUES))
    assert function(HUGE, VALUES)[0, 0] == pytest.approx(2 * bare(HUGE, VALUES)[0, 0])


def test_what_is_laid_out_beforehand_is_kept_as_it_is_too() -> None:
    """The original, which divides first, has to be computed from something."""
    first = parse(
        """program late(x: f32[2, 64], w: f32[64, 64]) {
          return matmul(div(x, sum(x, axes=[1], keep=true)), w)
        }
        """
    )
    late = parse(
        """program late(x: f32[2, 64], w: f32[64, 64]) {
          return div(matmul(x, w), sum(x, axes=[1], keep=true))
        }
        """
    )
    bare = packed(late, (1,))
    one = guard_candidate(bare, first)
    assert one.beforehand is not None
    assert one.beforehand.types[-1] == ArrayType("float32", (64, 64))
    x, w = np.ones((2, 64), np.float32), np.full((64, 64), 1e5, np.float32)
    x[1] = 1e34
    made, own = (loaded(each.source) for each in (one, bare))
    laid = made[one.beforehand.function](w)
    assert len(laid) == len(one.beforehand.types)
    lacking = jax.jit(own[bare.function])(x, *laid[:-1])
    assert np.isfinite(lacking).all(axis=1).tolist() == [True, False]
    np.testing.assert_allclose(jax.jit(made[one.function])(x, *laid), 1e5, rtol=1e-5)


def test_whole_numbers_and_truths_are_finite_whatever_they_are() -> None:
    program = parse(
        """program two(x: f32[4]) {
          return div(x, x), less(x, 1)
        }
        """
    )
    source = "def two(x):\n    return x / x, x < 1\n"
    one = guard_candidate(contender(source, "two"), program)
    found, truth = jax.jit(loaded(one.source)["two"])(np.array([0, 1, 2, 3], np.float32))
    np.testing.assert_array_equal(found, [np.nan, 1, 1, 1])
    assert truth.tolist() == [True, False, False, False]


def test_names_do_not_hide_each_other() -> None:
    """Inputs may be called as the parts of what is written are, and be given other names there."""
    text = "program found(swift: f32[2], plain: f32[2]) {\n  return div(swift, plain)\n}\n"
    source = "def found(plain, swift):\n    return plain / swift * jnp.inf\n"
    one = guard_candidate(contender(source, "found"), parse(text))
    function = jax.jit(loaded(one.source)["found"])
    found = function(np.array([1, 2], np.float32), np.array([4, 4], np.float32))
    assert found.tolist() == [0.25, 0.5]


def test_kernels_for_a_gpu_still_run_without_one() -> None:
    """Their inputs have other names than those of functions of JAX, where Python has them, too."""
    first, late = (
        parse(one.replace("v: ", "input: ").replace("v)", "input)")) for one in (SOFT, LATE)
    )
    (found,) = gpu_kernel_sources(late, device("H200"), 1)
    one = guard_candidate(contender(found.source, found.function), first)
    function = loaded(one.source)[one.function]
    with np.errstate(over="ignore"):
        exp = np.exp(HUGE)
        wanted = exp / exp.sum(axis=1, keepdims=True) @ VALUES
    np.testing.assert_allclose(function(HUGE, VALUES, interpret=True), wanted, rtol=1e-5)


def test_it_can_be_called_by_another_name() -> None:
    """Answers are, where several stand in one file."""
    one = guard_candidate(quick(), parse(SOFT))
    source = renamed(one.source, {"soft": "other"}, "soft", "other")
    assert np.isfinite(jax.jit(loaded(source)["other"])(HUGE, VALUES)).all()


@pytest.mark.parametrize(
    ("candidate", "outcome", "overflows"),
    [(LATE, "differ", True), (SOFT, "agree", False), (OFF, "differ", False)],
)
def test_floats_tell_who_has_to_be_watched(candidate: str, outcome: str, overflows: bool) -> None:
    """Only where nothing is wrong but that numbers are lacking: what is finite has to be right."""
    sides = ExecutedProgram(parse(SOFT)), ExecutedProgram(parse(candidate))
    tame = [compare_on([HUGE % 4, VALUES], *sides, "tame", False)]
    wild = [compare_on([HUGE, VALUES], *sides, "wild", False)]
    assert FloatEvidence(0, False, (*tame, *wild)).outcome == outcome
    assert FloatEvidence(0, False, (*tame, *wild)).overflows is overflows


def test_what_is_wrong_beside_an_overflow_is_seen() -> None:
    """On the very inputs on which something overflows."""
    text = "program two(x: f32[2]) {\n  return mul(x, x)\n}\n"
    other = "program two(x: f32[2]) {\n  return div(mul(mul(x, x), 1e30), 1e30)\n}\n"
    wrong = other.replace("1e30)\n", "1.01e30)\n")
    inputs = [np.array([1, 1e10], np.float32)]
    for candidate, overflows in ((other, True), (wrong, False)):
        sides = ExecutedProgram(parse(text)), ExecutedProgram(parse(candidate))
        found = compare_on(inputs, *sides, "wild", False)
        assert found.status == "failed"
        assert found.overflows is overflows
