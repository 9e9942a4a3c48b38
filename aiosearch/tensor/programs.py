"""The built-in programs: layers that models spend their time on, as plain mathematics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .errors import TensorError
from .sizes import Dim
from .terms import Program, Term, apply, literal, tensor
from .types import DType

Labels: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Builtin:
    """A program with a default size for every label."""

    name: str
    summary: str
    inputs: Mapping[str, Labels]
    """The labels of each input's axes; axes of one label have one size."""
    sizes: Mapping[str, int]
    output: Callable[..., Term]

    def program(self, dtype: str | DType = DType.F16, /, **sizes: Dim) -> Program:
        """The program at these sizes, by default the built-in ones."""
        unknown = sizes.keys() - self.sizes.keys()
        if unknown:
            raise TensorError(
                f"{self.name} has no size {', '.join(sorted(unknown))};"
                f" it has {', '.join(self.sizes)}"
            )
        chosen = {**self.sizes, **sizes}
        inputs = [
            tensor(name, dtype, [chosen[label] for label in labels], labels)
            for name, labels in self.inputs.items()
        ]
        return Program(self.name, tuple(inputs), (self.output(*inputs),))


BUILTINS: dict[str, Builtin] = {}


def builtin(name: str, dtype: str | DType = DType.F16, /, **sizes: Dim) -> Program:
    """A built-in program, at its default sizes unless `sizes` gives others."""
    declared = BUILTINS.get(name)
    if declared is None:
        raise TensorError(f"no built-in program {name!r}: there are {', '.join(BUILTINS)}")
    return declared.program(dtype, **sizes)


def _declare(
    name: str,
    summary: str,
    inputs: Mapping[str, str],
    output: Callable[..., Term],
    **sizes: int,
) -> None:
    labels = {tensor: tuple(text.split()) for tensor, text in inputs.items()}
    BUILTINS[name] = Builtin(name, summary, labels, sizes, output)


# What the programs are made of


def _exp(x: Term) -> Term:
    return apply("exp", x)


def _silu(x: Term) -> Term:
    return apply("silu", x)


def _sum(x: Term) -> Term:
    return apply("sum", x, axes=(len(x.shape) - 1,), keep=True)


def _mean(x: Term) -> Term:
    return apply("mean", x, axes=(len(x.shape) - 1,), keep=True)


def _rms(x: Term) -> Term:
    """Divides each row by the root of its mean square."""
    return apply("rms_norm", x)


def _rms_columns(x: Term) -> Term:
    """Divides each column by the root of its mean square (the last axis but one)."""
    square = apply("square", x)
    return x / apply("sqrt", apply("mean", square, axes=(len(x.shape) - 2,), keep=True))


def _softmax(x: Term) -> Term:
    # Subtracting the maximum leaves the quotient as it is and keeps exp from overflowing.
    e = _exp(x - apply("max", x, axes=(len(x.shape) - 1,), keep=True))
    return e / _sum(e)


def _exp_attention(q: Term, k: Term, v: Term) -> Term:
    e = _exp(q @ k)
    return (e / _sum(e)) @ v


def _attention(q: Term, k: Term, v: Term) -> Term:
    # A size of 0 is legal and computes nothing; the scale must not divide by it.
    scale = 1 / math.sqrt(max(_number(q.shape[-1]), 1))
    return _softmax((q @ k) * literal(scale)) @ v


def _gated(x: Term, gate: Term, up: Term) -> Term:
    return _silu(x @ gate) * (x @ up)


def _layernorm(x: Term) -> Term:
    # Two passes: the mean of squares less the square of the mean would cancel.
    centred = x - _mean(x)
    return centred / apply("sqrt", _mean(apply("square", centred)) + literal(1e-5))


def _number(size: Dim) -> int:
    if not isinstance(size, int):
        raise TensorError(f"{size} has to be a number, because the program computes with it")
    return size


def _along(x: Term, vector: Term) -> Term:
    """A vector with axes of size one before it, to meet the rank of `x`."""
    return apply("reshape", vector, shape=(*(1 for _ in x.shape[:-1]), *vector.shape))


def _linear_layernorm(x: Term, w: Term, bias: Term, gain: Term, shift: Term) -> Term:
    y = x @ w
    return _layernorm(y + _along(y, bias)) * _along(y, gain) + _along(y, shift)


def _conv_bias_relu(image: Term, filters: Term, bias: Term) -> Term:
    window = [_number(size) for size in filters.shape[:2]]
    y = apply(
        "convolution",
        image,
        filters,
        strides=(1, 1),
        # Even windows are padded by one more behind than before, as XLA's SAME padding does.
        low=tuple((size - 1) // 2 for size in window),
        high=tuple(size // 2 for size in window),
        dilation=(1, 1),
    )
    return apply("relu", y + _along(y, bias))


# The programs

_ATTENTION = {"Q": "head row feature", "K": "head feature key", "V": "head key value"}
_ATTENTION_SIZES = {"head": 2, "row": 256, "feature": 64, "key": 4096, "value": 64}
_GATED = {"X": "row feature", "W1": "feature hidden", "W2": "feature hidden"}
_LORA = {"X": "row feature", "W": "feature column", "A": "feature rank", "B": "rank column"}

_declare(
    "rms_norm",
    "RMS normalisation of each row, then a linear layer: rms(X)·W",
    {"X": "row feature", "W": "feature column"},
    lambda x, w: _rms(x) @ w,
    row=16,
    feature=4096,
    column=6144,
)
_declare(
    "gated_mlp",
    "the gated half of an MLP: silu(X·W1)∘(X·W2)",
    _GATED,
    _gated,
    row=8,
    feature=4096,
    hidden=4096,
)
_declare(
    "mlp_down",
    "a gated MLP with its down projection: (silu(X·W1)∘(X·W2))·W3",
    {**_GATED, "W3": "hidden column"},
    lambda x, gate, up, down: _gated(x, gate, up) @ down,
    row=8,
    feature=4096,
    hidden=4096,
    column=4096,
)
_declare(
    "lora",
    "a linear layer with a low-rank adapter: X·W + (X·A)·B",
    _LORA,
    lambda x, w, a, b: x @ w + (x @ a) @ b,
    row=16,
    feature=256,
    rank=16,
    column=4096,
)
_declare(
    "lora_demo",
    "the adapter at the shape of a demonstration, one row: X·W + (X·A)·B",
    _LORA,
    lambda x, w, a, b: x @ w + (x @ a) @ b,
    row=1,
    feature=4096,
    rank=16,
    column=4096,
)
_declare(
    "gqa",
    "attention of grouped queries without scale, mask or maximum: (E/ΣE)·V, E = exp(Q·K)",
    _ATTENTION,
    _exp_attention,
    **_ATTENTION_SIZES,
)
_declare(
    "qk_norm",
    "gqa with Q and K normalised along their features first",
    _ATTENTION,
    lambda q, k, v: _exp_attention(_rms(q), _rms_columns(k), v),
    **_ATTENTION_SIZES,
)
_declare(
    "qk_norm_v",
    "gqa with Q and V normalised along their last axes first",
    _ATTENTION,
    lambda q, k, v: _exp_attention(_rms(q), k, _rms(v)),
    **_ATTENTION_SIZES,
)
_declare(
    "attention",
    "attention as it is run: softmax(Q·K/√feature)·V, the maximum subtracted before exp",
    _ATTENTION,
    _attention,
    **_ATTENTION_SIZES,
)
_declare(
    "ntrans",
    "a step of a normalised transformer: rms(X + alpha∘(rms(H) + X))",
    {"X": "row feature", "H": "row feature", "alpha": "row feature"},
    lambda x, h, alpha: _rms(x + alpha * (_rms(h) + x)),
    row=8,
    feature=4096,
)
_declare(
    "moe_gate",
    "the gate of a mixture of experts, how much each row asks of each: softmax(X·G)",
    {"X": "row feature", "G": "feature expert"},
    lambda x, g: _softmax(x @ g),
    row=8,
    feature=4096,
    expert=8,
)
_declare(
    "linear_layernorm",
    "a linear layer, then layer normalisation with eps 1e-5, gain and shift",
    {
        "X": "row feature",
        "W": "feature column",
        "bias": "column",
        "gain": "column",
        "shift": "column",
    },
    _linear_layernorm,
    row=16,
    feature=4096,
    column=4096,
)
_declare(
    "conv_bias_relu",
    "a convolution that keeps the size of its images, a bias and relu: relu(image*filters + bias)",
    {
        "image": "batch height width channel",
        "filters": "window_height window_width channel feature",
        "bias": "feature",
    },
    _conv_bias_relu,
    batch=8,
    height=56,
    width=56,
    channel=64,
    window_height=3,
    window_width=3,
    feature=64,
)
