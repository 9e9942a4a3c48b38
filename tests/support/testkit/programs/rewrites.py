"""Right programs: what the built-in ones may be rewritten to, by operators and by kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from aiosearch.tensor import Block, Program, Term, apply, literal, read, write
from aiosearch.tensor.programs import BUILTINS, builtin

Make: TypeAlias = Callable[..., Term]

SMALL = {
    "row": 4, "feature": 8, "column": 4, "hidden": 4, "rank": 2, "head": 2, "key": 8, "value": 4,
    "expert": 4, "batch": 2, "height": 3, "width": 4, "channel": 4, "window_height": 3,
    "window_width": 3,
}  # fmt: skip
"""Sizes that every schedule here divides."""

SQUARE = dict.fromkeys(SMALL, 4) | {"window_height": 3, "window_width": 3}
"""Sizes at which operands fit where they do not belong."""


def small(name: str, sizes: Mapping[str, int] = SMALL) -> dict[str, int]:
    """The sizes of a built-in program's labels; those of one row keep it."""
    own = BUILTINS[name].sizes
    return {label: sizes[label] if own[label] > 1 else 1 for label in own}


@dataclass(frozen=True)
class Rewrite:
    """A way to compute a built-in program."""

    name: str
    original: str
    make: Make = field(repr=False)

    def pair(self, dtype: str = "f16", **sizes: int) -> tuple[Program, Program]:
        """The built-in program and its rewrite, at small sizes where no others are given."""
        original = builtin(self.original, dtype, **{**small(self.original), **sizes})
        return original, Program(self.name, original.inputs, (self.make(*original.inputs),))


REWRITES: list[Rewrite] = []


def rewrites(*originals: str) -> Callable[[Make], Make]:
    """Says of which programs a function is a rewrite."""

    def declare(make: Make) -> Make:
        REWRITES.extend(Rewrite(f"{name}: {make.__name__}", name, make) for name in originals)
        return make

    return declare


def last(name: str, x: Term) -> Term:
    return apply(name, x, axes=(len(x.shape) - 1,), keep=True)


def total(x: Term) -> Term:
    return last("sum", x)


def exp(x: Term) -> Term:
    return apply("exp", x)


def silu(x: Term) -> Term:
    return apply("silu", x)


def root(x: Term) -> Term:
    return apply("sqrt", x)


def square(x: Term) -> Term:
    return apply("square", x)


def turned(x: Term) -> Term:
    """With its last two axes in each other's place."""
    rank = len(x.shape)
    return apply("transpose", x, axes=(*range(rank - 2), rank - 1, rank - 2))


def part(x: Term, axis: int, start: int, stop: int) -> Term:
    return apply("slice", x, axis=axis, start=start, stop=stop)


def halves(x: Term, axis: int) -> tuple[Term, Term]:
    size = x.shape[axis]
    assert isinstance(size, int)
    return part(x, axis, 0, size // 2), part(x, axis, size // 2, size)


def joined(axis: int, *terms: Term) -> Term:
    return apply("concatenate", *terms, axis=axis)


def along(x: Term, vector: Term) -> Term:
    return apply("reshape", vector, shape=(*(1 for _ in x.shape[:-1]), *vector.shape))


def rms(x: Term) -> Term:
    return root(last("mean", square(x)))


def rms_columns(x: Term) -> Term:
    return root(apply("mean", square(x), axes=(len(x.shape) - 2,), keep=True))


def stacked_sum(parts: int, x: Term) -> Term:
    """Adds up what blocks stored one below the other."""
    rows = x.shape[0]
    assert isinstance(rows, int)
    return apply("sum", apply("reshape", x, shape=(parts, rows // parts, *x.shape[1:])), axes=(0,))


def stored(block: Block, tile: Term, *maps: int | None) -> Term:
    (found,) = block.results((tile, maps))
    return found


# Linear layers after normalisation


@rewrites("rms_norm")
def scale_after_product(x: Term, w: Term) -> Term:
    return (x @ w) / rms(x)


@rewrites("rms_norm")
def reciprocal_root(x: Term, w: Term) -> Term:
    return (x * apply("rsqrt", last("mean", square(x)))) @ w


@rewrites("rms_norm")
def sum_of_products(x: Term, w: Term) -> Term:
    """The sum of squares as the diagonal of X·Xᵀ, its count as a mean of ones."""
    squares = apply("diagonal", x @ turned(x))
    count = last("sum", x * 0 + 1)
    return (x @ w) / root(apply("reshape", squares, shape=(*squares.shape, 1)) / count)


@rewrites("rms_norm")
def split_k(x: Term, w: Term) -> Term:
    (x1, x2), (w1, w2) = halves(x, 1), halves(w, 0)
    return (x1 @ w1 + x2 @ w2) / rms(x)


@rewrites("rms_norm")
def one_kernel(x: Term, w: Term) -> Term:
    block = Block(grid=(2,), range=2)
    tile = block.load(x, loop=1)
    product = block.accumulate(tile @ block.load(w, (1,), loop=0))
    return stored(block, product / block.accumulate(tile, "rms"), 1)


@rewrites("rms_norm")
def one_kernel_of_means(x: Term, w: Term) -> Term:
    block = Block(grid=(2, 2), range=4)
    tile = block.load(x, (None, 0), loop=1)
    product = block.accumulate(tile @ block.load(w, (1, None), loop=0))
    return stored(block, product / root(block.accumulate(square(tile), "mean")), 1, 0)


@rewrites("rms_norm")
def one_kernel_of_threads(x: Term, w: Term) -> Term:
    block = Block(grid=(2,), range=2)
    tile = block.load(x, loop=1)
    product = read(block.accumulate(tile @ block.load(w, (1,), loop=0)))
    scale = read(block.accumulate(write(square(read(tile))), "mean"))
    return stored(block, write(product / root(scale)), 1)


@rewrites("rms_norm")
def kernel_of_scales(x: Term, w: Term) -> Term:
    block = Block(grid=(2,), range=2)
    scale = stored(block, block.accumulate(block.load(x, (0,), loop=1), "rms"), 0)
    return (x @ w) / scale


@rewrites("rms_norm")
def blocks_add_up(x: Term, w: Term) -> Term:
    block = Block(grid=(2,), range=2)
    product = block.load(x, (1,), loop=1) @ block.load(w, (0,), loop=0)
    return stacked_sum(2, stored(block, block.accumulate(product), 0)) / rms(x)


@rewrites("rms_norm")
def columns_by_turns(x: Term, w: Term) -> Term:
    """As (Wᵀ·Xᵀ)ᵀ, with the scale inside."""
    return turned(turned(w) @ turned(x / rms(x)))


# Gated layers


@rewrites("gated_mlp")
def sigmoid(x: Term, gate: Term, up: Term) -> Term:
    y = x @ gate
    return apply("sigmoid", y) * y * (x @ up)


@rewrites("gated_mlp")
def silu_spelled_out(x: Term, gate: Term, up: Term) -> Term:
    y = x @ gate
    return y / (1 + exp(-y)) * (x @ up)


@rewrites("gated_mlp")
def one_product(x: Term, gate: Term, up: Term) -> Term:
    first, second = halves(x @ joined(1, gate, up), 1)
    return silu(first) * second


def gated_tile(block: Block, x: Term, gate: Term, up: Term) -> tuple[Term, Term]:
    tile = block.load(x, loop=1)
    return (
        block.accumulate(tile @ block.load(gate, (1,), loop=0)),
        block.accumulate(tile @ block.load(up, (1,), loop=0)),
    )


@rewrites("gated_mlp")
def gated_kernel(x: Term, gate: Term, up: Term) -> Term:
    block = Block(grid=(2,), range=4)
    first, second = gated_tile(block, x, gate, up)
    return stored(block, silu(first) * second, 1)


@rewrites("gated_mlp")
def gated_threads(x: Term, gate: Term, up: Term) -> Term:
    block = Block(grid=(2,), range=4)
    first, second = map(read, gated_tile(block, x, gate, up))
    return stored(block, write(first * second / (1 + exp(-first))), 1)


@rewrites("gated_mlp")
def two_outputs(x: Term, gate: Term, up: Term) -> Term:
    """The first is stored turned, by a map of its own."""
    block = Block(grid=(2,), range=2)
    first, second = gated_tile(block, x, gate, up)
    one, two = block.results((turned(silu(first)), (0,)), (second, (1,)))
    return turned(one) * two


@rewrites("gated_mlp")
def pointwise_kernel(x: Term, gate: Term, up: Term) -> Term:
    block = Block(grid=(2, 2))
    first, second = (block.load(one, (0, 1)) for one in (x @ gate, x @ up))
    return stored(block, block.accumulate(silu(first) * second), 0, 1)


@rewrites("mlp_down")
def down_in_halves(x: Term, gate: Term, up: Term, down: Term) -> Term:
    (h1, h2), (w1, w2) = halves(silu(x @ gate) * (x @ up), 1), halves(down, 0)
    return h1 @ w1 + h2 @ w2


@rewrites("mlp_down")
def gate_in_kernel(x: Term, gate: Term, up: Term, down: Term) -> Term:
    return gated_kernel(x, gate, up) @ down


@rewrites("mlp_down")
def loop_over_hidden(x: Term, gate: Term, up: Term, down: Term) -> Term:
    block = Block(grid=(2,), range=4)
    tile = block.load(x)
    first, second = (tile @ block.load(one, loop=1) for one in (gate, up))
    product = (silu(first) * second) @ block.load(down, (1,), loop=0)
    return stored(block, block.accumulate(product), 1)


@rewrites("mlp_down")
def hidden_over_blocks(x: Term, gate: Term, up: Term, down: Term) -> Term:
    block = Block(grid=(2,))
    tile = block.load(x)
    first, second = (tile @ block.load(one, (1,)) for one in (gate, up))
    product = (silu(first) * second) @ block.load(down, (0,))
    return stacked_sum(2, stored(block, block.accumulate(product), 0))


# Adapters

LORA = ("lora", "lora_demo")


@rewrites(*LORA)
def merged(x: Term, w: Term, a: Term, b: Term) -> Term:
    return x @ (w + a @ b)


@rewrites(*LORA)
def other_order(x: Term, w: Term, a: Term, b: Term) -> Term:
    return x @ (a @ b) + x @ w


@rewrites(*LORA)
def side_by_side(x: Term, w: Term, a: Term, b: Term) -> Term:
    return joined(1, x, x @ a) @ joined(0, w, b)


@rewrites(*LORA)
def adapter_columns(x: Term, w: Term, a: Term, b: Term) -> Term:
    """One product for W and A, whose last columns go through B."""
    column, rank = w.shape[1], a.shape[1]
    assert isinstance(column, int)
    assert isinstance(rank, int)
    both = x @ joined(1, w, a)
    return part(both, 1, 0, column) + part(both, 1, column, column + rank) @ b


@rewrites(*LORA)
def adapter_split_k(x: Term, w: Term, a: Term, b: Term) -> Term:
    (x1, x2), (w1, w2), (a1, a2) = halves(x, 1), halves(w, 0), halves(a, 0)
    return (x1 @ w1 + x2 @ w2) + (x1 @ a1 + x2 @ a2) @ b


@rewrites(*LORA)
def adapter_after_loop(x: Term, w: Term, a: Term, b: Term) -> Term:
    """Both products in one loop, and B behind it: the largest of a tile that stays is the tile."""
    block = Block(grid=(2,), range=2)
    tile = block.load(x, loop=1)
    wide = block.accumulate(tile @ block.load(w, (1,), loop=0))
    low = block.accumulate(tile @ block.load(a, loop=0))
    behind = block.accumulate(block.load(b, (1,)), "max")
    return stored(block, wide + low @ behind, 1)


@rewrites(*LORA)
def adapter_in_loop(x: Term, w: Term, a: Term, b: Term) -> Term:
    block = Block(grid=(2,), range=4)
    tile = block.load(x, loop=1)
    wide = tile @ block.load(w, (1,), loop=0)
    low = (tile @ block.load(a, loop=0)) @ block.load(b, (1,))
    return stored(block, block.accumulate(wide + low), 1)


@rewrites(*LORA)
def side_by_side_in_kernel(x: Term, w: Term, a: Term, b: Term) -> Term:
    block = Block(grid=(2,))
    tile = block.load(x)
    low = tile @ block.load(a)
    product = joined(1, tile, low) @ joined(0, block.load(w, (1,)), block.load(b, (1,)))
    return stored(block, block.accumulate(product), 1)


# Attention


@rewrites("gqa")
def divided_last(q: Term, k: Term, v: Term) -> Term:
    e = exp(q @ k)
    return (e @ v) / total(e)


@rewrites("gqa")
def with_maximum(q: Term, k: Term, v: Term) -> Term:
    scores = q @ k
    e = exp(scores - last("max", scores))
    return (e @ v) / total(e)


@rewrites("gqa")
def split_kv(q: Term, k: Term, v: Term) -> Term:
    e1, e2 = (exp(q @ keys) for keys in halves(k, 2))
    v1, v2 = halves(v, 1)
    return (e1 @ v1 + e2 @ v2) / (total(e1) + total(e2))


@rewrites("gqa")
def sums_as_a_column(q: Term, k: Term, v: Term) -> Term:
    """A column of ones beside V gives the sums."""
    size = v.shape[2]
    assert isinstance(size, int)
    ones = apply("broadcast", literal(1), shape=(*v.shape[:2], 1))
    both = exp(q @ k) @ joined(2, v, apply("cast", ones, dtype=v.dtype))
    return part(both, 2, 0, size) / part(both, 2, size, size + 1)


@rewrites("gqa")
def turned_attention(q: Term, k: Term, v: Term) -> Term:
    e = exp(turned(k) @ turned(q))
    return turned((turned(v) @ e) / apply("sum", e, axes=(1,), keep=True))


def weights(block: Block, q: Term, k: Term, rows: bool = True) -> Term:
    """exp(Q·K) of a block: heads over x, rows over y where asked for, keys over the loop."""
    return exp(block.load(q, (0, 1 if rows else None)) @ block.load(k, (0,), loop=2))


@rewrites("gqa")
def loop_over_keys(q: Term, k: Term, v: Term) -> Term:
    block = Block(grid=(2, 2), range=2)
    e = weights(block, q, k)
    out = block.accumulate(e @ block.load(v, (0,), loop=1))
    return stored(block, out / block.accumulate(e, "sum"), 0, 1)


@rewrites("gqa")
def loop_then_sum(q: Term, k: Term, v: Term) -> Term:
    block = Block(grid=(2, 2), range=4)
    e = weights(block, q, k)
    out = block.accumulate(e @ block.load(v, (0,), loop=1))
    return stored(block, out / total(block.accumulate(e)), 0, 1)


@rewrites("gqa")
def keys_over_blocks(q: Term, k: Term, v: Term) -> Term:
    """Each block sees some keys; a second kernel folds what they stored side by side."""
    block = Block(grid=(2, 2, 2), range=2)
    tile = block.load(q, (0, 1, None))
    e = exp(tile @ block.load(k, (0, None, 2), loop=2))
    out = block.accumulate(e @ block.load(v, (0, None, 1), loop=1))
    sums, outs = block.results((block.accumulate(e, "sum"), (0, 1, 2)), (out, (0, 1, 2)))
    size = v.shape[2]
    last_block = Block(grid=(2, 2), range=1)
    above = last_block.accumulate(last_block.load(outs, (0, 1)), "redtox", size)
    below = last_block.accumulate(last_block.load(sums, (0, 1)), "sum")
    return stored(last_block, above / below, 0, 1)


@rewrites("gqa")
def folded(q: Term, k: Term, v: Term) -> Term:
    """Keys over blocks, the rest by operators."""
    block = Block(grid=(2, 2))
    e = exp(block.load(q, (0, None)) @ block.load(k, (0, 2)))
    out = block.accumulate(e @ block.load(v, (0, 1)))
    outs, sums = block.results((out, (0, 2)), (block.accumulate(e, "sum"), (0, 2)))
    return apply("fold", outs, axis=2, size=v.shape[2]) / total(sums)


@rewrites("gqa")
def attention_threads(q: Term, k: Term, v: Term) -> Term:
    block = Block(grid=(2, 2), range=2)
    scores = block.load(q, (0, 1)) @ block.load(k, (0,), loop=2)
    e = write(exp(read(scores)))
    out = block.accumulate(e @ block.load(v, (0,), loop=1))
    found = write(read(out) / read(block.accumulate(e, "sum")))
    return stored(block, found, 0, 1)


@rewrites("qk_norm")
def scales_after_scores(q: Term, k: Term, v: Term) -> Term:
    e = exp((q @ k) / rms(q) / rms_columns(k))
    return (e @ v) / total(e)


@rewrites("qk_norm")
def scales_spelled_out(q: Term, k: Term, v: Term) -> Term:
    e = exp((q / rms(q)) @ (k * apply("rsqrt", apply("mean", square(k), axes=(1,), keep=True))))
    return (e / total(e)) @ v


@rewrites("qk_norm")
def turned_keys(q: Term, k: Term, v: Term) -> Term:
    keys = turned(apply("rms_norm", turned(k)))
    e = exp(apply("rms_norm", q) @ keys)
    return (e @ v) / total(e)


@rewrites("qk_norm")
def normalised_in_kernel(q: Term, k: Term, v: Term) -> Term:
    block = Block(grid=(2, 2), range=2)
    rows = apply("rms_norm", block.load(q, (0, 1)))
    keys = block.load(k, (0,), loop=2)
    e = exp((rows @ keys) / rms_columns(keys))
    out = block.accumulate(e @ block.load(v, (0,), loop=1))
    return stored(block, out / block.accumulate(e, "sum"), 0, 1)


@rewrites("qk_norm_v")
def value_scales_in_weights(q: Term, k: Term, v: Term) -> Term:
    e = exp((q @ k) / rms(q))
    return ((e / turned(rms(v))) @ v) / total(e)


@rewrites("qk_norm_v")
def values_normalised_in_kernel(q: Term, k: Term, v: Term) -> Term:
    block = Block(grid=(2, 2), range=4)
    rows = apply("rms_norm", block.load(q, (0, 1)))
    e = exp(rows @ block.load(k, (0,), loop=2))
    out = block.accumulate(e @ apply("rms_norm", block.load(v, (0,), loop=1)))
    return stored(block, out / block.accumulate(e, "sum"), 0, 1)


@rewrites("qk_norm_v")
def normalised_split_kv(q: Term, k: Term, v: Term) -> Term:
    return split_kv(q / rms(q), k, v / rms(v))


def scale(q: Term) -> Term:
    size = q.shape[-1]
    assert isinstance(size, int)
    return literal(size**-0.5)


@rewrites("attention")
def without_maximum(q: Term, k: Term, v: Term) -> Term:
    e = exp((q @ k) * scale(q))
    return (e / total(e)) @ v


@rewrites("attention")
def scaled_queries(q: Term, k: Term, v: Term) -> Term:
    scores = (q * scale(q)) @ k
    e = exp(scores - last("max", scores))
    return (e @ v) / total(e)


def softmax_part(q: Term, k: Term, v: Term) -> tuple[Term, Term, Term]:
    """The largest score, the sum of the weights below it, and the weighted values."""
    scores = (q @ k) * scale(q)
    top = last("max", scores)
    e = exp(scores - top)
    return top, total(e), e @ v


@rewrites("attention")
def online_softmax(q: Term, k: Term, v: Term) -> Term:
    """Two halves of the keys, each rescaled to the common maximum."""
    parts = [softmax_part(q, *half) for half in zip(halves(k, 2), halves(v, 1), strict=True)]
    (top1, sum1, out1), (top2, sum2, out2) = parts
    top = apply("maximum", top1, top2)
    one, two = exp(top1 - top), exp(top2 - top)
    return (out1 * one + out2 * two) / (sum1 * one + sum2 * two)


@rewrites("attention")
def online_in_one_step(q: Term, k: Term, v: Term) -> Term:
    """The second half corrects the first, whatever its maximum."""
    (k1, k2), (v1, v2) = halves(k, 2), halves(v, 1)
    top1, sum1, out1 = softmax_part(q, k1, v1)
    scores = (q @ k2) * scale(q)
    top = apply("maximum", top1, last("max", scores))
    e, shrink = exp(scores - top), exp(top1 - top)
    return (out1 * shrink + e @ v2) / (sum1 * shrink + total(e))


@rewrites("attention")
def two_passes(q: Term, k: Term, v: Term) -> Term:
    """A kernel finds the maxima, another one uses them."""
    first = Block(grid=(2, 2), range=2)
    scores = (first.load(q, (0, 1)) @ first.load(k, (0,), loop=2)) * scale(q)
    tops = stored(first, last("max", first.accumulate(scores, "max")), 0, 1)
    block = Block(grid=(2, 2), range=4)
    scores = (block.load(q, (0, 1)) @ block.load(k, (0,), loop=2)) * scale(q)
    e = exp(scores - block.load(tops, (0, 1)))
    out = block.accumulate(e @ block.load(v, (0,), loop=1))
    return stored(block, out / block.accumulate(e, "sum"), 0, 1)


@rewrites("attention")
def minima_of_negatives(q: Term, k: Term, v: Term) -> Term:
    scores = (q @ k) * scale(q)
    e = exp(scores + last("min", -scores))
    return (e @ v) / total(e)


@rewrites("attention")
def attention_loop(q: Term, k: Term, v: Term) -> Term:
    block = Block(grid=(2, 2), range=2)
    e = exp((block.load(q, (0, 1)) * scale(q)) @ block.load(k, (0,), loop=2))
    out = block.accumulate(e @ block.load(v, (0,), loop=1))
    return stored(block, out / block.accumulate(e, "sum"), 0, 1)


# Normalised steps


@rewrites("ntrans")
def step_spelled_out(x: Term, h: Term, alpha: Term) -> Term:
    y = x + alpha * h / rms(h) + alpha * x
    return y / rms(y)


@rewrites("ntrans")
def gathered(x: Term, h: Term, alpha: Term) -> Term:
    y = x * (1 + alpha) + (alpha * h) * apply("rsqrt", last("mean", square(h)))
    return apply("rms_norm", y)


@rewrites("ntrans")
def step_in_one_kernel(x: Term, h: Term, alpha: Term) -> Term:
    block = Block(grid=(4,))
    x, h, alpha = (block.load(one, (0,)) for one in (x, h, alpha))
    y = x + alpha * (apply("rms_norm", h) + x)
    return stored(block, block.accumulate(y) / block.accumulate(y, "rms"), 0)


@rewrites("ntrans")
def step_of_threads(x: Term, h: Term, alpha: Term) -> Term:
    block = Block(grid=(2,))
    x, h, alpha = (block.load(one, (0,)) for one in (x, h, alpha))
    other = block.accumulate(h, "rms")
    mine, theirs, rate = (read(block.accumulate(one)) for one in (x, h, alpha))
    y = write(mine + rate * (theirs / read(other) + mine))
    return stored(block, y / rms(y), 0)


@rewrites("ntrans")
def two_kernels(x: Term, h: Term, alpha: Term) -> Term:
    first = Block(grid=(2,), range=4)
    below = stored(first, first.accumulate(first.load(h, (0,), loop=1), "rms"), 0)
    y = x + alpha * (h / below + x)
    second = Block(grid=(4,), range=2)
    return y / stored(second, second.accumulate(second.load(y, (0,), loop=1), "rms"), 0)


# Gates


@rewrites("moe_gate")
def plain_softmax(x: Term, g: Term) -> Term:
    e = exp(x @ g)
    return e / total(e)


@rewrites("moe_gate")
def by_logarithm(x: Term, g: Term) -> Term:
    scores = x @ g
    return exp(scores - apply("log", total(exp(scores))))


@rewrites("moe_gate")
def reciprocal_sum(x: Term, g: Term) -> Term:
    scores = x @ g
    e = exp(scores - last("max", scores))
    return e * apply("reciprocal", total(e))


@rewrites("moe_gate")
def other_shift(x: Term, g: Term) -> Term:
    """Any shift will do: here the mean."""
    scores = x @ g
    e = exp(scores - last("mean", scores))
    return e / total(e)


@rewrites("moe_gate")
def gate_kernel(x: Term, g: Term) -> Term:
    block = Block(grid=(2,), range=4)
    scores = block.accumulate(block.load(x, (0,), loop=1) @ block.load(g, loop=0))
    e = exp(scores - last("max", scores))
    return stored(block, e / total(e), 0)


@rewrites("moe_gate")
def experts_in_halves(x: Term, g: Term) -> Term:
    parts = [x @ half for half in halves(g, 1)]
    tops = [last("max", one) for one in parts]
    top = apply("maximum", *tops)
    e = joined(1, *(exp(one - top) for one in parts))
    return e / total(e)


# Layer normalisation


def finished(y: Term, centred: Term, variance: Term, gain: Term, shift: Term) -> Term:
    scaled = centred / root(variance + 1e-5)
    return scaled * along(y, gain) + along(y, shift)


@rewrites("linear_layernorm")
def reciprocal_deviation(x: Term, w: Term, bias: Term, gain: Term, shift: Term) -> Term:
    y = x @ w
    y = y + along(y, bias)
    centred = y - last("mean", y)
    below = apply("rsqrt", last("mean", square(centred)) + 1e-5)
    return centred * (below * along(y, gain)) + along(y, shift)


@rewrites("linear_layernorm")
def mean_of_squares(x: Term, w: Term, bias: Term, gain: Term, shift: Term) -> Term:
    """The mean of squares less the square of the mean: right, if not in floats."""
    y = x @ w
    y = y + along(y, bias)
    mean = last("mean", y)
    return finished(y, y - mean, last("mean", square(y)) - square(mean), gain, shift)


@rewrites("linear_layernorm")
def centred_weights(x: Term, w: Term, bias: Term, gain: Term, shift: Term) -> Term:
    """The mean is taken off W and the bias beforehand."""
    bias = along(w, bias)
    centred = x @ (w - last("mean", w)) + (bias - last("mean", bias))
    return finished(centred, centred, last("mean", square(centred)), gain, shift)


@rewrites("linear_layernorm")
def bias_as_a_row(x: Term, w: Term, bias: Term, gain: Term, shift: Term) -> Term:
    """The bias is a row of W that meets a column of ones."""
    ones = apply("broadcast", literal(1), shape=(x.shape[0], 1))
    y = joined(1, x, apply("cast", ones, dtype=x.dtype)) @ joined(0, w, along(w, bias))
    centred = y - last("mean", y)
    return finished(y, centred, last("mean", square(centred)), gain, shift)


@rewrites("linear_layernorm")
def layernorm_kernel(x: Term, w: Term, bias: Term, gain: Term, shift: Term) -> Term:
    block = Block(grid=(2,), range=2)
    y = block.accumulate(block.load(x, (0,), loop=1) @ block.load(w, loop=0))
    y = stored(block, y, 0) + along(x, bias)
    rows = Block(grid=(4,))
    y = rows.load(y, (0,))
    centred = y - last("mean", y)
    gain, shift = (rows.load(along(x, one)) for one in (gain, shift))
    below = root(last("mean", square(centred)) + 1e-5)
    return stored(rows, rows.accumulate(centred / below * gain + shift), 0)


@rewrites("linear_layernorm")
def linear_split_k(x: Term, w: Term, bias: Term, gain: Term, shift: Term) -> Term:
    block = Block(grid=(2,), range=2)
    product = block.load(x, (1,), loop=1) @ block.load(w, (0,), loop=0)
    y = stacked_sum(2, stored(block, block.accumulate(product), 0)) + along(x, bias)
    centred = y - last("mean", y)
    return finished(y, centred, last("mean", square(centred)), gain, shift)


# Convolution


def convolved(image: Term, filters: Term) -> Term:
    return apply(
        "convolution", image, filters, strides=(1, 1), low=(1, 1), high=(1, 1), dilation=(1, 1)
    )


def padded(image: Term) -> Term:
    for axis in (1, 2):
        image = apply("pad", image, axis=axis, low=1, high=1)
    return image


@rewrites("conv_bias_relu")
def maximum_of_zero(image: Term, filters: Term, bias: Term) -> Term:
    y = convolved(image, filters)
    return apply("maximum", literal(0), y + along(y, bias))


@rewrites("conv_bias_relu")
def channels_in_halves(image: Term, filters: Term, bias: Term) -> Term:
    (i1, i2), (f1, f2) = halves(image, 3), halves(filters, 2)
    y = convolved(i1, f1) + convolved(i2, f2)
    return apply("relu", along(y, bias) + y)


@rewrites("conv_bias_relu")
def features_in_halves(image: Term, filters: Term, bias: Term) -> Term:
    y = joined(3, *(convolved(image, half) for half in halves(filters, 3)))
    return apply("relu", y + along(y, bias))


@rewrites("conv_bias_relu")
def convolution_as_product(image: Term, filters: Term, bias: Term) -> Term:
    """Every pixel's window as a row of one matrix."""
    batch, height, width, channel = image.shape
    assert isinstance(height, int)
    assert isinstance(width, int)
    around = padded(image)
    columns = [
        part(part(around, 1, i, i + height), 2, j, j + width) for i in range(3) for j in range(3)
    ]
    pixels = batch * height * width
    rows = apply("reshape", joined(3, *columns), shape=(pixels, 9 * channel))
    y = rows @ apply("reshape", filters, shape=(9 * channel, filters.shape[3]))
    y = apply("reshape", y, shape=(batch, height, width, filters.shape[3]))
    return apply("relu", y + along(y, bias))


@rewrites("conv_bias_relu")
def images_over_blocks(image: Term, filters: Term, bias: Term) -> Term:
    block = Block(grid=(2, 2))
    y = convolved(block.load(image, (0,)), block.load(filters, (None, 3)))
    y = y + block.load(along(image, bias), (None, 3))
    return stored(block, apply("relu", block.accumulate(y)), 0, 3)


@rewrites("conv_bias_relu")
def channels_over_the_loop(image: Term, filters: Term, bias: Term) -> Term:
    block = Block(grid=(2,), range=2)
    y = convolved(block.load(image, (0,), loop=3), block.load(filters, loop=2))
    y = stored(block, block.accumulate(y), 0)
    return apply("relu", y + along(y, bias))
