"""Right rewrites and wrong ones of small programs, for the layers that judge them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from aiosearch.tensor import Block, Program, Term, apply, literal, tensor

Pair: TypeAlias = tuple[Program, Program]


def over(*inputs: Term) -> Callable[..., Program]:
    """Makes programs over these inputs: `over(X)(expression, …)`."""
    return lambda *outputs: Program("program", inputs, outputs)


def last(name: str, x: Term) -> Term:
    """A reduction over the last axis, which stays."""
    return apply(name, x, axes=(len(x.shape) - 1,), keep=True)


def transposed(x: Term) -> Term:
    return apply("transpose", x, axes=(0, 2, 1))


def rms_norm(dtype: str, scale: str = "rms") -> Pair:
    """The scale is moved past the product."""
    x, w = tensor("X", dtype, (8, 64)), tensor("W", dtype, (64, 48))
    block = Block(grid=(4,), range=4)
    tile = block.load(x, loop=1)
    total = block.accumulate(tile @ block.load(w, (1,), loop=0))
    fused = block.results((total / block.accumulate(tile, scale), (1,)))
    make = over(x, w)
    return make(apply("rms_norm", x) @ w), make(*fused)


def split_k(dtype: str, parts: int = 4) -> Pair:
    """Each block adds up its part of a product; a second kernel adds up the blocks."""
    x, w = tensor("X", dtype, (8, 64)), tensor("W", dtype, (64, 24))
    first = Block(grid=(parts,), range=2)
    part = first.accumulate(first.load(x, (1,), loop=1) @ first.load(w, (0,), loop=0))
    (partial,) = first.results((part, (0,)))
    shaped = apply("reshape", partial, shape=(parts, 8, 24))
    make = over(x, w)
    return make(x @ w), make(apply("sum", shaped, axes=(0,)))


def attention_inputs(dtype: str) -> tuple[Term, Term, Term]:
    return (
        tensor("Q", dtype, (2, 4, 8)),
        tensor("K", dtype, (2, 16, 8)),
        tensor("V", dtype, (2, 16, 8)),
    )


def softmax(x: Term) -> Term:
    e = apply("exp", x - last("max", x))
    return e / last("sum", e)


def attention(q: Term, k: Term, v: Term) -> Term:
    return softmax((q @ transposed(k)) * 0.25) @ v


def online_softmax(dtype: str, rescaled: bool = True) -> Pair:
    """Keys are seen in two halves; what the first came to is rescaled to the common maximum."""
    q, k, v = inputs = attention_inputs(dtype)
    tops, sums, outs = [], [], []
    for start in (0, 8):
        keys, values = (apply("slice", one, axis=1, start=start, stop=start + 8) for one in (k, v))
        scores = (q @ transposed(keys)) * 0.25
        tops.append(last("max", scores))
        e = apply("exp", scores - tops[-1])
        sums.append(last("sum", e))
        outs.append(e @ values)
    top = apply("maximum", *tops)
    weights = [apply("exp", one - top) if rescaled else literal(1) for one in tops]
    out = outs[0] * weights[0] + outs[1] * weights[1]
    make = over(*inputs)
    return make(attention(*inputs)), make(out / (sums[0] * weights[0] + sums[1] * weights[1]))


def merged_lora(dtype: str, factor: float = 1) -> Pair:
    x, w = tensor("X", dtype, (8, 64)), tensor("W", dtype, (64, 48))
    a, b = tensor("A", dtype, (64, 4)), tensor("B", dtype, (4, 48))
    make = over(x, w, a, b)
    return make(x @ w + (x @ a) @ b), make(x @ (w + (a @ b) * factor))


def silu_spelled_out(dtype: str, sign: int = -1) -> Pair:
    """Within one kernel, where nothing is rounded to the element type on the way."""
    x = tensor("X", dtype, (8, 32))
    block = Block(grid=(4,))
    tile = block.accumulate(block.load(x, (1,)))
    spelled = block.results((tile / (1 + apply("exp", tile * sign)), (1,)))
    make = over(x)
    return make(apply("silu", x)), make(*spelled)


RIGHT: dict[str, Callable[[str], Pair]] = {
    "rms_norm": rms_norm,
    "split_k": split_k,
    "online_softmax": online_softmax,
    "merged_lora": merged_lora,
    "silu": silu_spelled_out,
}

WRONG: dict[str, Callable[[str], Pair]] = {
    "mean for rms": lambda dtype: rms_norm(dtype, "mean"),
    "maxima not rescaled": lambda dtype: online_softmax(dtype, rescaled=False),
    "product doubled": lambda dtype: merged_lora(dtype, 2),
    "sign dropped": lambda dtype: silu_spelled_out(dtype, 1),
}

Shapes: TypeAlias = Sequence[int]


def elementwise(
    original: Callable[..., Term],
    candidate: Callable[..., Term],
    dtype: str = "f32",
    shape: Shapes = (4, 16),
    count: int = 1,
) -> Pair:
    """Two functions of inputs of one shape."""
    inputs = tuple(tensor("XYZ"[index], dtype, shape) for index in range(count))
    make = over(*inputs)
    return make(original(*inputs)), make(candidate(*inputs))
