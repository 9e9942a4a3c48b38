from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aiosearch.tensor import ShapeError, Size, TensorError
from aiosearch.tensor.programs import BUILTINS, builtin
from aiosearch.tensor.referee import run
from aiosearch.tensor.types import DType

SMALL = {
    "batch": 2,
    "head": 2,
    "row": 3,
    "feature": 4,
    "hidden": 5,
    "column": 6,
    "rank": 2,
    "key": 7,
    "value": 5,
    "expert": 3,
    "height": 5,
    "width": 4,
    "channel": 2,
}


def rms(x: Any, axis: int = -1) -> Any:
    return x / np.sqrt((x * x).mean(axis=axis, keepdims=True))


def softmax(x: Any) -> Any:
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def layernorm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def convolved(image: Any, filters: Any, bias: Any) -> Any:
    """Each place's window, one after the other."""
    padded = np.pad(image, [(0, 0), (1, 1), (1, 1), (0, 0)])
    found = np.empty((*image.shape[:3], filters.shape[3]))
    for y in range(image.shape[1]):
        for x in range(image.shape[2]):
            window = padded[:, y : y + 3, x : x + 3]
            found[:, y, x] = np.tensordot(window, filters, axes=3) + bias
    return np.maximum(found, 0)


MEANINGS: dict[str, Callable[..., Any]] = {
    "rms_norm": lambda x, w: rms(x) @ w,
    "gated_mlp": lambda x, v, w: silu(x @ v) * (x @ w),
    "mlp_down": lambda x, v, w, u: (silu(x @ v) * (x @ w)) @ u,
    "lora": lambda x, w, a, b: x @ (w + a @ b),
    "lora_demo": lambda x, w, a, b: x @ (w + a @ b),
    "gqa": lambda q, k, v: softmax(q @ k) @ v,
    "qk_norm": lambda q, k, v: softmax(rms(q) @ rms(k, 1)) @ v,
    "qk_norm_v": lambda q, k, v: softmax(rms(q) @ k) @ rms(v),
    "attention": lambda q, k, v: softmax(q @ k / 2) @ v,
    "ntrans": lambda x, h, alpha: rms(x + alpha * (rms(h) + x)),
    "moe_gate": lambda x, g: softmax(x @ g),
    "linear_layernorm": lambda x, w, bias, gain, shift: layernorm(x @ w + bias) * gain + shift,
    "conv_bias_relu": convolved,
}


def small(name: str) -> dict[str, int]:
    return {label: SMALL[label] for label in BUILTINS[name].sizes if label in SMALL}


def test_every_program_has_a_meaning() -> None:
    """No built-in program is left out below."""
    assert MEANINGS.keys() == BUILTINS.keys()


@pytest.mark.parametrize("name", BUILTINS)
def test_meaning(name: str) -> None:
    """Each computes what NumPy computes by other words."""
    program = builtin(name, "f64", **small(name))
    draw = np.random.default_rng(0)
    inputs = [draw.standard_normal(x.shape) for x in program.inputs]
    (found,) = run(program, inputs)
    assert np.allclose(found, MEANINGS[name](*inputs), rtol=1e-9)
    assert program.name == name


@pytest.mark.parametrize("name", BUILTINS)
def test_sizes_and_labels(name: str) -> None:
    """At its own sizes a program has the labels that it declares, each with one size."""
    declared = BUILTINS[name]
    program = declared.program()
    assert [x.parameter("name") for x in program.inputs] == list(declared.inputs)
    for x, labels in zip(program.inputs, declared.inputs.values(), strict=True):
        assert x.parameter("labels") == labels
        assert x.shape == tuple(declared.sizes[label] for label in labels)
        assert x.dtype is DType.F16
    assert {label for labels in declared.inputs.values() for label in labels} == set(declared.sizes)
    assert declared.summary


def test_symbolic_sizes() -> None:
    """A size may be left open, unless the program computes with it."""
    n = Size.named("n")
    assert builtin("rms_norm", row=n).outputs[0].shape == (n, 6144)
    for name, label in (("attention", "feature"), ("conv_bias_relu", "window_width")):
        with pytest.raises(TensorError, match="n has to be a number"):
            builtin(name, **{label: n})


def test_wrong_names() -> None:
    """An unknown program or size is answered with those that there are."""
    with pytest.raises(TensorError, match="no built-in program 'rmsnorm': there are rms_norm, "):
        builtin("rmsnorm")
    with pytest.raises(TensorError, match="rms_norm has no size rows; it has row, feature, column"):
        builtin("rms_norm", rows=3)
    with pytest.raises(TensorError, match="rms_norm has no size dtype"):
        builtin("rms_norm", **{"dtype": 3})
    with pytest.raises(ShapeError):
        builtin("rms_norm", "f12")
