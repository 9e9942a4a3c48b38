from __future__ import annotations

import pytest
from rewrites import REWRITES, Rewrite
from small_gpu import GPU

from aiosearch.devices import device
from aiosearch.superoptimizer.bounding import least_bytes, least_seconds
from aiosearch.superoptimizer.predicting import predict
from aiosearch.superoptimizer.values import number
from aiosearch.tensor import Program, apply, tensor
from aiosearch.tensor.programs import builtin

X = tensor("X", "f32", (4, 6))
W = tensor("W", "f32", (6, 8))


def test_inputs_are_read_and_outputs_written_once() -> None:
    """However often they are used, and whatever lies between."""
    y = (X @ W) @ apply("transpose", W, axes=(1, 0))
    program = Program("program", (X, W), (y, y))
    assert least_bytes(program) == 4 * (24 + 48 + 24)
    assert least_seconds(program, GPU, 3) == 4 * (24 + 48 + 24) / 100 + 3 * GPU.launch_seconds


def test_what_may_not_be_needed_does_not_count() -> None:
    """An input of which a part is cut away, or chosen, need not be read whole."""
    part = apply("slice", X, axis=0, start=0, stop=1) @ W
    assert least_bytes(Program("part", (X, W), (part,))) == 4 * (48 + 8)
    chosen = apply("select", apply("less", X, X + 1), X, X * 2)
    assert least_bytes(Program("chosen", (X,), (chosen,))) == 4 * 24
    unused = Program("unused", (X, W), (X * 2,))
    assert least_bytes(unused) == 4 * (24 + 24)


def test_a_window_that_leaves_elements_out_does_not_need_them() -> None:
    """A convolution of steps of two counts its output only; of steps of one all it reads."""
    x = tensor("x", "f32", (1, 5, 5, 1))
    w = tensor("w", "f32", (1, 1, 1, 1))
    for step, read in ((1, 4 * (25 + 1)), (2, 0)):
        strides, none, once = (step, step), (0, 0), (1, 1)
        found = apply("convolution", x, w, strides=strides, low=none, high=none, dilation=once)
        written = 4 * (25 if step == 1 else 9)
        assert least_bytes(Program("windows", (x, w), (found,))) == read + written


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda rewrite: rewrite.name)
def test_no_rewrite_takes_less(rewrite: Rewrite) -> None:
    """The bound of a built-in program holds for every right way to compute it, on any device."""
    for program in rewrite.pair():
        for where in (GPU, *map(device, ("A100", "H100", "H200"))):
            found = predict(program, where)
            assert least_seconds(rewrite.pair()[0], where, found.launches) <= found.seconds


def test_the_bound_says_something() -> None:
    """A linear layer after normalisation is bound by its weight, which has to be read."""
    reference = builtin("rms_norm")
    assert number(least_bytes(reference)) > 2 * 4096 * 6144
    gap = predict(reference, device("A100")).seconds / least_seconds(reference, device("A100"))
    assert gap < 1.1
