from __future__ import annotations

import pytest

from aiosearch.devices import device
from aiosearch.equivalence import verify
from aiosearch.superoptimizer.compose.composer import Composer
from aiosearch.tensor import Program, apply, literal, tensor
from aiosearch.tensor.programs import builtin

A100 = device("A100")


@pytest.mark.parametrize("name", ["rms_norm", "lora", "mlp_down"])
def test_what_is_composed_computes_the_same(name: str) -> None:
    """It is no more than asked for, and never the program itself."""
    program = builtin(name, row=16)
    found = Composer(A100, 2.0).unfused(program, 3)
    assert len(found) <= 3
    assert program not in found
    for one in found:
        assert verify(program, one, floats=False).status.accepted


def test_a_long_program_is_searched_in_pieces() -> None:
    """The weights of the adapter are added first, in the middle of other layers."""
    x, w, a, b = (
        tensor(name, "f32", shape)
        for name, shape in {"X": (8, 64), "W": (64, 64), "A": (64, 4), "B": (4, 64)}.items()
    )
    value = x
    for _ in range(3):
        value = apply("exp", value @ w + (value @ a) @ b)
    program = Program("layers", (x, w, a, b), (value,))
    found = Composer(A100, 100.0).unfused(program, 2)
    assert found
    for one in found:
        assert verify(program, one, floats=False).status.accepted


def test_what_was_searched_for_operators_is_used_for_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program is partitioned once, also after the time is over."""
    program = builtin("rms_norm", row=16)
    composer = Composer(A100, 100.0)
    composer.unfused(program, 2)
    monkeypatch.setattr("time.monotonic", lambda: float("inf"))
    fused = composer.fused(program)
    assert fused is not None
    assert verify(program, fused, floats=False).status.accepted


def test_without_time_nothing_is_composed() -> None:
    assert Composer(A100, 0.0).unfused(builtin("rms_norm"), 2) == []


def test_what_cannot_be_searched_is_left_alone() -> None:
    assert Composer(A100, 2.0).unfused(builtin("conv_bias_relu"), 2) == []


def test_values_that_have_no_type_yet_have_a_width() -> None:
    """Truths choose among numbers, and what is computed of those is as wide as it will be."""
    x, y = (tensor(name, "bool", (3,)) for name in "XY")
    chosen = apply("exp", apply("select", x, literal(1), literal(0)))
    other = apply("select", y, literal(1), literal(0))
    total = apply("sum", apply("cast", chosen, dtype="f32"), axes=(0,))
    program = Program("scaled", (x, y), (chosen * other / total,))
    for found in Composer(A100, 100.0).unfused(program, 2):
        assert verify(program, found, floats=False).status.accepted
