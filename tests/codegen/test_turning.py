"""Rows that products share, laid side by side."""

from __future__ import annotations

import pytest
from refereed import assert_right
from running import program

from aiosearch.codegen.fusing import fused
from aiosearch.codegen.ir import Module
from aiosearch.codegen.lowering import lower
from aiosearch.codegen.turning import turned
from aiosearch.tensor import DType, Term, apply, tensor


def rows(count: int, depth: int = 512, dtype: DType = DType.F32) -> Term:
    return tensor("X", dtype, (count, depth))


def weights(name: str = "W", depth: int = 512, dtype: DType = DType.F32) -> Term:
    return tensor(name, dtype, (depth, 48))


def names(module: Module) -> list[str]:
    return [one.name for one in module.kernels]


def test_an_input_is_turned_once_for_all_its_products() -> None:
    """By a kernel before them; whoever else reads it does so as before."""
    x = rows(16)
    module = lower(program(x @ weights("W"), x @ weights("V"), x + x))
    found = turned(module)
    assert names(found)[0] == "X.turned"
    assert len(found.kernels) == len(module.kernels) + 1
    readers = [one for one in found.kernels if any(each.name == "X.turned" for each in one.inputs)]
    assert len(readers) == 2
    assert not any(each.name == "X" for one in readers for each in one.inputs)
    assert_right(found)


def test_what_kernels_pass_on_is_turned_on_the_way() -> None:
    """Behind the kernel that fills it, also where that is an output of the program."""
    x = rows(12)
    middle = apply("tanh", x)
    for outputs in ([middle @ weights()], [middle, middle @ weights()]):
        module = lower(program(*outputs))
        found = turned(module)
        assert len(found.kernels) == len(module.kernels) + 1
        assert_right(found)


def test_what_a_kernel_makes_for_itself_is_made_so() -> None:
    """And read so by all of its stages."""
    x = rows(9)
    squares = apply("reshape", apply("sum", x * x, axes=(1,)), shape=(9, 1))
    normed = x / apply("sqrt", squares)
    module = fused(lower(program(normed @ tensor("W", DType.F32, (512, 4096)))))
    found = turned(module)
    assert len(found.kernels) == len(module.kernels) == 1
    assert found != module
    assert_right(found)


@pytest.mark.parametrize(
    "result",
    [
        rows(8) @ weights(),
        rows(17) @ weights(),
        rows(16, 256) @ weights("W", 256),
        rows(16, dtype=DType.BF16) @ weights(dtype=DType.BF16),
        apply("transpose", tensor("X", DType.F32, (512, 16)), axes=(1, 0)) @ weights(),
        apply("sum", rows(16), axes=(1,)),
        apply("sum", rows(16) * tensor("s", DType.F32, ()), axes=(1,)),
        tensor("X", DType.F32, (3, 16, 512)) @ tensor("W", DType.F32, (3, 512, 48)),
    ],
    ids=["few", "many", "short", "halves", "turned", "no product", "one number", "stacks"],
)
def test_others_stay_as_they_are(result: Term) -> None:
    module = lower(program(result))
    assert turned(module) == module
    assert turned(turned(module)) == module


def test_it_is_done_once() -> None:
    found = turned(lower(program(rows(16) @ weights())))
    assert turned(found) == found
