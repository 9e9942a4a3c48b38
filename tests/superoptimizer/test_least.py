from __future__ import annotations

from kernel_graphs import fusion, leaves

from aiosearch.devices import device
from aiosearch.superoptimizer.space import Space
from aiosearch.tensor import Program, apply, tensor
from aiosearch.tensor.programs import builtin

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
    for found in leaves(problem):
        if len(found.kernels) == 1:
            assert problem.least.moved(found.kernels) == whole
            seconds = problem.least.seconds(found.kernels, (), 0, A100)
            assert seconds == whole / A100.bytes_per_second + A100.launch_seconds


def test_a_type_counts_with_its_own_width() -> None:
    """Elements of four bytes are four."""
    x = tensor("X", "f32", (4, 8))
    (found,) = leaves(fusion(Program("e", (x,), (apply("exp", x),)), Space(custom_kernels=0)))
    assert found.least_bytes == 4 * (32 + 32)
