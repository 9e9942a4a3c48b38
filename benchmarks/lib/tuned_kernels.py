"""Ten kernels as JAX users write them, whose block sizes, unrolling and forms are guesses.

Each is a function with a space and a reference; `ARGUMENTS` has the types it is tuned for. Two of
them are Pallas kernels, which run in interpret mode where there is no GPU; two are sparse.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from aiosearch.tuner import Sampler, tunable

INTERPRET = jax.default_backend() == "cpu"


def powers(low: int, high: int) -> tuple[int, ...]:
    """Powers of two, both ends included."""
    return tuple(1 << at for at in range(low.bit_length() - 1, high.bit_length()))


# --- softmax by chunks of rows -------------------------------------------------------------------


def softmax_space(s: Sampler, x: Any) -> None:
    s.integer("chunk", 1, 512, base=2)
    s.categorical("order", ("max-exp", "logsumexp", "two-pass"))
    s.categorical("reciprocal", (False, True))
    s.integer("unroll", 1, 4, base=2)
    s.require(lambda chunk: x.shape[0] % chunk == 0, "chunks divide the rows")


def softmax_reference(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x, axis=-1)


@tunable(softmax_space, reference=softmax_reference)
def softmax(
    x: jax.Array, *, chunk: int = 1, order: str = "max-exp", reciprocal: bool = False,
    unroll: int = 1,
) -> jax.Array:  # fmt: skip
    def rows(block: jax.Array) -> jax.Array:
        if order == "logsumexp":
            return jnp.exp(block - jax.scipy.special.logsumexp(block, axis=-1, keepdims=True))
        top = jnp.max(block, axis=-1, keepdims=True)
        if order == "two-pass":
            top = lax.optimization_barrier(top)
        scaled = jnp.exp(block - top)
        total = jnp.sum(scaled, axis=-1, keepdims=True)
        return scaled * (1 / total) if reciprocal else scaled / total

    def step(carry: None, block: jax.Array) -> tuple[None, jax.Array]:
        return None, rows(block)

    _, out = lax.scan(step, None, x.reshape(-1, chunk, x.shape[1]), unroll=unroll)
    return out.reshape(x.shape)


# --- attention with an online softmax ------------------------------------------------------------


def attention_space(s: Sampler, q: Any, k: Any, v: Any) -> None:
    s.integer("queries", 16, 256, base=2)
    s.integer("keys", 16, 512, base=2)
    s.integer("unroll", 1, 4, base=2)
    s.categorical("transposed", (False, True))
    s.require(lambda queries: q.shape[1] % queries == 0, "blocks divide the queries")
    s.require(lambda keys: k.shape[1] % keys == 0, "blocks divide the keys")


def attention_reference(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("hqd,hkd->hqk", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)


@tunable(attention_space, reference=attention_reference)
def attention(
    q: jax.Array, k: jax.Array, v: jax.Array, *, queries: int = 64, keys: int = 64,
    unroll: int = 1, transposed: bool = False,
) -> jax.Array:  # fmt: skip
    heads, length, depth = q.shape
    blocks = q.reshape(heads, -1, queries, depth).swapaxes(0, 1) / np.sqrt(depth)
    ks = k.reshape(heads, -1, keys, depth).swapaxes(0, 1)
    vs = v.reshape(heads, -1, keys, depth).swapaxes(0, 1)

    def attend(block: jax.Array) -> jax.Array:
        def step(carry: Any, pair: Any) -> tuple[Any, None]:
            out, top, total = carry
            key, value = pair
            if transposed:
                scores = jnp.einsum("hkd,hqd->hkq", key, block).swapaxes(1, 2)
            else:
                scores = jnp.einsum("hqd,hkd->hqk", block, key)
            higher = jnp.maximum(top, scores.max(-1, keepdims=True))
            weights = jnp.exp(scores - higher)
            scale = jnp.exp(top - higher)
            out = out * scale + jnp.einsum("hqk,hkd->hqd", weights, value)
            return (out, higher, total * scale + weights.sum(-1, keepdims=True)), None

        edge = (heads, queries, 1)
        start = (jnp.zeros_like(block), jnp.full(edge, -jnp.inf), jnp.zeros(edge))
        (out, _, total), _ = lax.scan(step, start, (ks, vs), unroll=min(unroll, ks.shape[0]))
        return out / total

    return lax.map(attend, blocks).swapaxes(0, 1).reshape(heads, length, depth)


# --- a blocked matrix product, in Pallas ---------------------------------------------------------


def matmul_space(s: Sampler, x: Any, y: Any) -> None:
    rows = s.integer("rows", 32, 256, base=2)
    columns = s.integer("columns", 32, 256, base=2)
    depth = s.integer("depth", 32, 256, base=2)
    s.categorical("order", ("rows-first", "columns-first"))
    s.derive("bytes", 4 * (rows * depth + depth * columns + rows * columns))
    s.derive("steps", x.shape[0] * y.shape[1] * y.shape[0] / (rows * columns * depth))


def matmul_reference(x: jax.Array, y: jax.Array) -> jax.Array:
    return x @ y


def _matmul_body(depth_axis: int, x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    @pl.when(pl.program_id(depth_axis) == 0)
    def _() -> None:
        out_ref[...] = jnp.zeros_like(out_ref)

    out_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)


@tunable(matmul_space, reference=matmul_reference)
def matmul(
    x: jax.Array, y: jax.Array, *, rows: int = 32, columns: int = 32, depth: int = 32,
    order: str = "rows-first",
) -> jax.Array:  # fmt: skip
    m, n, k = x.shape[0], y.shape[1], y.shape[0]
    swapped = order == "columns-first"
    grid = (
        (n // columns, m // rows, k // depth) if swapped else (m // rows, n // columns, k // depth)
    )

    def place(i: Any, j: Any) -> tuple[Any, Any]:
        return (j, i) if swapped else (i, j)

    return pl.pallas_call(
        functools.partial(_matmul_body, 2),
        grid=grid,
        in_specs=[
            pl.BlockSpec((rows, depth), lambda i, j, at: (place(i, j)[0], at)),
            pl.BlockSpec((depth, columns), lambda i, j, at: (at, place(i, j)[1])),
        ],
        out_specs=pl.BlockSpec((rows, columns), lambda i, j, at: place(i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        interpret=INTERPRET,
    )(x, y)


# --- a norm of rows, in Pallas -------------------------------------------------------------------


def norm_space(s: Sampler, x: Any, w: Any) -> None:
    s.tile("rows", x.shape[0], parts=2, most_inner=512)
    s.categorical("form", ("rsqrt", "divide", "power"))
    s.categorical("weight_first", (False, True))
    s.integer("pieces", 1, 8, base=2)


def norm_reference(x: jax.Array, w: jax.Array) -> jax.Array:
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * w


def _norm_body(
    form: str, weight_first: bool, pieces: int, x_ref: Any, w_ref: Any, out: Any
) -> None:
    x = x_ref[...]
    total = sum(jnp.sum(part * part, -1, keepdims=True) for part in jnp.split(x, pieces, axis=1))
    mean = total / x.shape[-1] + 1e-6
    if form == "rsqrt":
        scale = lax.rsqrt(mean)
    else:
        scale = 1 / jnp.sqrt(mean) if form == "divide" else mean**-0.5
    out[...] = x * w_ref[...] * scale if weight_first else x * scale * w_ref[...]


@tunable(norm_space, reference=norm_reference)
def norm(
    x: jax.Array, w: jax.Array, *, rows: tuple[int, int] = (512, 1), form: str = "rsqrt",
    weight_first: bool = False, pieces: int = 1,
) -> jax.Array:  # fmt: skip
    block = rows[1]
    return pl.pallas_call(
        functools.partial(_norm_body, form, weight_first, pieces),
        grid=(rows[0],),
        in_specs=[
            pl.BlockSpec((block, x.shape[1]), lambda i: (i, 0)),
            pl.BlockSpec((x.shape[1],), lambda i: (0,)),
        ],
        out_specs=pl.BlockSpec((block, x.shape[1]), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=INTERPRET,
    )(x, w)


# --- a running sum by blocks ---------------------------------------------------------------------


def running_space(s: Sampler, x: Any) -> None:
    inner = s.integer("block", 4, 1024, base=2)
    within = s.fork("within", ("cumsum", "triangle", "doubling"))
    s.fork("between", ("scan", "cumsum", "associative"))
    s.integer("unroll", 1, 8, base=2)
    s.require(lambda block: x.shape[1] % block == 0, "blocks divide the columns")
    s.require(
        within != "triangle" or inner <= 256, "triangles stay small", reads=("within", "block")
    )


def running_reference(x: jax.Array) -> jax.Array:
    return jnp.cumsum(x, axis=1)


@tunable(running_space, reference=running_reference)
def running(
    x: jax.Array, *, block: int = 64, within: str = "cumsum", between: str = "scan", unroll: int = 1
) -> jax.Array:
    parts = x.reshape(x.shape[0], -1, block)
    if within == "triangle":
        sums = parts @ jnp.triu(jnp.ones((block, block), x.dtype))
    elif within == "doubling":
        sums, reach = parts, 1
        while reach < block:
            sums = sums + jnp.pad(sums, ((0, 0), (0, 0), (reach, 0)))[..., :block]
            reach *= 2
    else:
        sums = jnp.cumsum(parts, axis=2)
    last = sums[..., -1]
    if between == "associative":
        before = lax.associative_scan(jnp.add, last, axis=1) - last
    elif between == "cumsum":
        before = jnp.cumsum(last, axis=1) - last
    else:

        def step(carry: jax.Array, column: jax.Array) -> tuple[jax.Array, jax.Array]:
            return carry + column, carry

        _, before = lax.scan(step, jnp.zeros_like(last[:, 0]), last.T, unroll=unroll)
        before = before.T
    return (sums + before[..., None]).reshape(x.shape)


# --- all pairs of bodies -------------------------------------------------------------------------


def bodies_space(s: Sampler, p: Any, w: Any) -> None:
    s.integer("targets", 16, 1024, base=2)
    s.integer("sources", 32, 1024, base=2)
    s.categorical("form", ("difference", "expanded"))
    s.integer("unroll", 1, 4, base=2)
    s.require(
        lambda targets, sources: targets * sources <= 1 << 18, "a tile stays within the cache"
    )


def bodies_reference(p: jax.Array, w: jax.Array) -> jax.Array:
    delta = p[:, None, :] - p[None, :, :]
    return jnp.sum(
        w[None, :, None] * delta * lax.rsqrt((delta**2).sum(-1) + 0.1)[..., None], axis=1
    )


@tunable(bodies_space, reference=bodies_reference)
def bodies(
    p: jax.Array, w: jax.Array, *, targets: int = 64, sources: int = 64, form: str = "difference",
    unroll: int = 1,
) -> jax.Array:  # fmt: skip
    others = (p.reshape(-1, sources, 3), w.reshape(-1, sources))

    def pull(tile: jax.Array) -> jax.Array:
        def step(total: jax.Array, pair: Any) -> tuple[jax.Array, None]:
            place, weight = pair
            if form == "difference":
                delta = tile[:, None] - place[None]
                scale = weight * lax.rsqrt((delta**2).sum(-1) + 0.1)
                return total + jnp.einsum("ts,tsc->tc", scale, delta), None
            squares = sum((tile[:, None, at] - place[None, :, at]) ** 2 for at in range(3))
            scale = weight * lax.rsqrt(squares + 0.1)
            return total + tile * scale.sum(1, keepdims=True) - scale @ place, None

        start = jnp.zeros_like(tile)
        return lax.scan(step, start, others, unroll=min(unroll, others[0].shape[0]))[0]

    return lax.map(pull, p.reshape(-1, targets, 3)).reshape(p.shape)


# --- a recurrent layer ---------------------------------------------------------------------------


def recurrent_space(s: Sampler, x: Any, w: Any, u: Any) -> None:
    s.integer("unroll", 1, 16, base=2)
    s.categorical("project", ("before", "inside"))
    s.categorical("gates", ("joined", "split"))
    s.categorical("transposed", (False, True))
    s.integer("chunk", 1, 16, base=4)
    s.require(lambda chunk: x.shape[0] % chunk == 0, "chunks divide the steps")


GAIN = 0.05
"""Weights are drawn normal; with larger ones small errors would grow from step to step."""


def recurrent_reference(x: jax.Array, w: jax.Array, u: jax.Array) -> jax.Array:
    w, u = w * GAIN, u * GAIN

    def step(h: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        gate, new = jnp.split(row @ w + h @ u, 2, axis=-1)
        gate = jax.nn.sigmoid(gate)
        h = gate * h + (1 - gate) * jnp.tanh(new)
        return h, h

    return lax.scan(step, jnp.zeros((x.shape[1], u.shape[0]), x.dtype), x)[1]


@tunable(recurrent_space, reference=recurrent_reference)
def recurrent(
    x: jax.Array, w: jax.Array, u: jax.Array, *, unroll: int = 1, project: str = "inside",
    gates: str = "joined", transposed: bool = False, chunk: int = 1,
) -> jax.Array:  # fmt: skip
    w, u = w * GAIN, u * GAIN

    def times(a: jax.Array, b: jax.Array) -> jax.Array:
        return (b.T @ a.swapaxes(-1, -2)).swapaxes(-1, -2) if transposed else a @ b

    def both(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        if gates == "joined":
            return tuple(jnp.split(times(a, b), 2, axis=-1))
        return tuple(times(a, part) for part in jnp.split(b, 2, axis=-1))

    def advance(h: jax.Array, inputs: Any) -> tuple[jax.Array, jax.Array]:
        first, second = both(h, u)
        gate, new = (a + b for a, b in zip(inputs, (first, second), strict=True))
        gate = jax.nn.sigmoid(gate)
        h = gate * h + (1 - gate) * jnp.tanh(new)
        return h, h

    def step(h: jax.Array, rows: Any) -> tuple[jax.Array, jax.Array]:
        projected = rows if project == "before" else both(rows, w)
        if chunk == 1:
            return advance(h, jax.tree.map(lambda part: part[0], projected))
        states = []
        for at in range(chunk):
            h, _ = advance(h, jax.tree.map(lambda part: part[at], projected))  # noqa: B023
            states.append(h)
        return h, jnp.stack(states)

    whole = both(x, w) if project == "before" else x
    parts = jax.tree.map(lambda part: part.reshape(-1, chunk, *part.shape[1:]), whole)
    start = jnp.zeros((x.shape[1], u.shape[0]), x.dtype)
    out = lax.scan(step, start, parts, unroll=unroll)[1]
    return out.reshape(x.shape[0], x.shape[1], u.shape[0])


# --- a convolution by sums of shifted products ---------------------------------------------------


def convolution_space(s: Sampler, x: Any, k: Any) -> None:
    form = s.fork("form", ("shifted", "columns", "library"))
    if form != "library":
        s.integer("rows", 1, 56)
        s.require(lambda rows: x.shape[0] % rows == 0, "strips divide the rows")
        s.categorical("joined", ("all", "by row", "one"))
        s.integer("unroll", 1, 2, base=2)


def convolution_reference(x: jax.Array, k: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(
        x[None], k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )[0]


@tunable(convolution_space, reference=convolution_reference)
def convolution(
    x: jax.Array, k: jax.Array, *, form: str = "shifted", rows: int = 56, joined: str = "one",
    unroll: int = 1,
) -> jax.Array:  # fmt: skip
    if form == "library":
        return convolution_reference(x, k)
    height, width, channels = x.shape
    size = k.shape[0]
    padded = jnp.pad(x, ((size // 2, size // 2), (size // 2, size // 2), (0, 0)))

    def strip(start: jax.Array) -> jax.Array:
        block = lax.dynamic_slice(
            padded, (start, 0, 0), (rows + size - 1, width + size - 1, channels)
        )

        def shifted(dy: int, dx: int) -> jax.Array:
            return block[dy : dy + rows, dx : dx + width]

        def product(parts: list[jax.Array], weights: jax.Array) -> jax.Array:
            if form == "columns":
                return jnp.concatenate(parts, -1).reshape(rows * width, -1) @ weights
            split = jnp.split(weights, len(parts))
            pairs = zip(parts, split, strict=True)
            return sum(part.reshape(rows * width, -1) @ weight for part, weight in pairs)

        places = [[(dy, dx) for dx in range(size)] for dy in range(size)]
        if joined == "all":
            groups = [[place for row in places for place in row]]
        else:
            groups = places if joined == "by row" else [[place] for row in places for place in row]
        total = 0
        for group in groups:
            weights = jnp.concatenate([k[dy, dx] for dy, dx in group])
            total = total + product([shifted(dy, dx) for dy, dx in group], weights)
        return total.reshape(rows, width, -1)

    def step(carry: None, start: jax.Array) -> tuple[None, jax.Array]:
        return None, strip(start)

    out = lax.scan(step, None, jnp.arange(0, height, rows), unroll=min(unroll, height // rows))[1]
    return out.reshape(height, width, -1)


# --- a sparse matrix times a dense one, by padded rows -------------------------------------------


def spmm_space(s: Sampler, columns: Any, values: Any, dense: Any) -> None:
    form = s.fork("form", ("gather", "steps", "scatter"))
    s.integer("rows", 16, 2048, base=2)
    s.require(lambda rows: columns.shape[0] % rows == 0, "blocks divide the rows")
    s.integer("features", 16, 128, base=2)
    s.require(lambda features: dense.shape[1] % features == 0, "pieces divide the features")
    if form == "steps":
        s.integer("unroll", 1, 8, base=2)


def spmm_reference(columns: jax.Array, values: jax.Array, dense: jax.Array) -> jax.Array:
    return jnp.einsum("rn,rnf->rf", values, dense[columns])


@tunable(spmm_space, reference=spmm_reference)
def spmm(
    columns: jax.Array, values: jax.Array, dense: jax.Array, *, form: str = "gather",
    rows: int = 2048, features: int = 128, unroll: int = 1,
) -> jax.Array:  # fmt: skip
    pieces = dense.reshape(dense.shape[0], -1, features).swapaxes(0, 1)

    def product(piece: jax.Array, places: jax.Array, weights: jax.Array) -> jax.Array:
        if form == "gather":
            return jnp.einsum("rn,rnf->rf", weights, piece[places])
        if form == "scatter":
            matrix = jnp.zeros((places.shape[0], dense.shape[0]), dense.dtype)
            owner = jnp.arange(places.shape[0])[:, None]
            return matrix.at[owner, places].add(weights) @ piece

        def step(total: jax.Array, pair: Any) -> tuple[jax.Array, None]:
            place, weight = pair
            return total + weight[:, None] * piece[place], None

        start = jnp.zeros((places.shape[0], features), dense.dtype)
        return lax.scan(step, start, (places.T, weights.T), unroll=unroll)[0]

    def block(pair: Any) -> jax.Array:
        out = lax.map(lambda piece: product(piece, *pair), pieces)
        return out.swapaxes(0, 1).reshape(rows, -1)

    shape = (-1, rows, columns.shape[1])
    return lax.map(block, (columns.reshape(shape), values.reshape(shape))).reshape(
        columns.shape[0], dense.shape[1]
    )


# --- sampled products: the values of a sparse matrix of two dense factors ------------------------


def sddmm_space(s: Sampler, columns: Any, left: Any, right: Any) -> None:
    s.integer("rows", 16, 1024, base=2)
    form = s.fork("form", ("gather", "dense", "steps"))
    if form != "dense":
        s.integer("pieces", 1, 8, base=2)
    s.integer("unroll", 1, 4, base=2)
    s.require(lambda rows: columns.shape[0] % rows == 0, "blocks divide the rows")


def sddmm_reference(columns: jax.Array, left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.einsum("rd,rnd->rn", left, right[columns])


@tunable(sddmm_space, reference=sddmm_reference)
def sddmm(
    columns: jax.Array, left: jax.Array, right: jax.Array, *, rows: int = 128, form: str = "gather",
    pieces: int = 1, unroll: int = 1,
) -> jax.Array:  # fmt: skip
    def block(pair: Any) -> jax.Array:
        places, factors = pair
        if form == "dense":
            return jnp.take_along_axis(factors @ right.T, places, axis=1)
        if form == "steps":
            return lax.map(lambda place: jnp.sum(factors * right[place], -1), places.T).T
        parts = zip(
            jnp.split(factors, pieces, axis=1), jnp.split(right, pieces, axis=1), strict=True
        )
        return sum(jnp.einsum("rd,rnd->rn", a, b[places]) for a, b in parts)

    def step(carry: None, pair: Any) -> tuple[None, jax.Array]:
        return None, block(pair)

    blocks = (columns.reshape(-1, rows, columns.shape[1]), left.reshape(-1, rows, left.shape[1]))
    unrolled = min(unroll, blocks[0].shape[0])
    return lax.scan(step, None, blocks, unroll=unrolled)[1].reshape(columns.shape)


def _floats(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _columns(rows: int, width: int, limit: int) -> np.ndarray[Any, Any]:
    """Places of nonzeros, the same on every run: a space is recorded on one matrix."""
    return np.random.default_rng(0).integers(0, limit, (rows, width)).astype(np.int32)


KERNELS: Mapping[str, tuple[Any, Callable[[], tuple[Any, ...]]]] = {
    "softmax": (softmax, lambda: (_floats(2048, 256),)),
    "attention": (attention, lambda: (_floats(4, 512, 64),) * 3),
    "matmul": (matmul, lambda: (_floats(256, 256), _floats(256, 256))),
    "norm": (norm, lambda: (_floats(512, 256), _floats(256))),
    "running": (running, lambda: (_floats(64, 8192),)),
    "bodies": (bodies, lambda: (_floats(1024, 3), _floats(1024))),
    "recurrent": (
        recurrent,
        lambda: (_floats(64, 8, 64), _floats(64, 256), _floats(128, 256)),
    ),
    "convolution": (convolution, lambda: (_floats(56, 56, 32), _floats(3, 3, 32, 32))),
    "spmm": (
        spmm,
        lambda: (_columns(2048, 16, 1024), _floats(2048, 16), _floats(1024, 128)),
    ),
    "sddmm": (
        sddmm,
        lambda: (_columns(1024, 16, 1024), _floats(1024, 64), _floats(1024, 64)),
    ),
}
"""A kernel of each name, and what it is called with."""
