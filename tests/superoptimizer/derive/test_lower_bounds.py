from __future__ import annotations

import pytest
from testkit.programs.rewrites import REWRITES, Rewrite
from testkit.superoptimizer.kernel_graphs import fusion, leaves
from testkit.superoptimizer.small_gpu import GPU

from aiosearch.devices import device
from aiosearch.superoptimizer.cost.prediction import predict
from aiosearch.superoptimizer.cost.size_values import number
from aiosearch.superoptimizer.derive.lower_bounds import least_bytes, least_seconds
from aiosearch.superoptimizer.space import Space
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


A100 = device("A100")
SMALL = Space(block_operators=6, kernels=2)


def test_inputs_that_no_kernel_has_read_are_still_to_be_read() -> None:
    """Before there is a kernel the bound has all inputs, the outputs and a launch."""
    problem = fusion(builtin("rms_norm", row=2, feature=8, column=4), SMALL)
    root = problem.root()
    found = problem.least.seconds(root.kernels, root.needed, 1, A100)
    assert found == 2 * (16 + 32 + 8) / A100.bytes_per_second + A100.launch_seconds


def test_an_input_that_cancels_need_not_be_read() -> None:
    """It is not in the form of the output."""
    x, y = (tensor(name, "f32", (4, 8), ("row", "column")) for name in "XY")
    program = Program("left", (x, y), (apply("exp", x + (y - y)),))
    problem = fusion(program, SMALL)
    least = problem.least.seconds((), problem.root().needed, 0, A100)
    assert least == 4 * (32 + 32) / A100.bytes_per_second


def test_an_input_that_is_read_elsewhere_in_it_is_read() -> None:
    """By way of a view, which moves its elements and costs nothing."""
    x, w = tensor("X", "f16", (4, 8)), tensor("W", "f16", (6, 8))
    product = x @ apply("transpose", w, axes=(1, 0))
    problem = fusion(Program("turned", (x, w), (product,)), SMALL)
    whole = 2 * (4 * 8 + 8 * 6 + 4 * 6)
    single = 0
    for found in leaves(problem):
        if len(found.kernels) == 1:
            single += 1
            assert problem.least.moved(found.kernels) == whole
            seconds = problem.least.seconds(found.kernels, (), 0, A100)
            assert seconds == whole / A100.bytes_per_second + A100.launch_seconds
    assert single


def test_a_type_counts_with_its_own_width() -> None:
    """Elements of four bytes are four."""
    x = tensor("X", "f32", (4, 8))
    (found,) = leaves(fusion(Program("e", (x,), (apply("exp", x),)), Space(custom_kernels=0)))
    assert found.least_bytes == 4 * (32 + 32)
