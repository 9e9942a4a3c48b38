"""Spliced functions under every transformation, with replacements that work and that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from testkit.programs.opaque import unread

from aiosearch.optimizer.candidates.jax_source import emit, names
from aiosearch.optimizer.trace import CutFunction, Packed, Spliced, SpliceError, Subject, cut
from aiosearch.tensor import Program

X = jnp.linspace(-1.0, 2.0, 24).reshape(4, 6)
W = jnp.linspace(0.5, -1.0, 36).reshape(6, 6)


class Counted:
    """The region's own computation in other words, and how often it was traced."""

    def __init__(self, cut: CutFunction, subject: Subject) -> None:
        self.piece = next(piece for piece in cut.regions if piece.subject == subject)
        self.times = 0

    def __call__(self, *inputs: Any) -> list[Any]:
        self.times += 1
        return [lax.optimization_barrier(one) for one in self.piece.original(*inputs)]


def counted(made: CutFunction) -> dict[Subject, Counted]:
    return {subject: Counted(made, subject) for subject in made.subjects}


def spliced(f: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Spliced, list[Counted]]:
    made = cut(f, *args, **kwargs)
    replacements = counted(made)
    return Spliced(made, replacements), list(replacements.values())


def same(one: Any, other: Any) -> None:
    """Equal trees of arrays, of equal types and weak types."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert jax.typeof(left) == jax.typeof(right)
        found, wanted = np.asarray(left, np.float64), np.asarray(right, np.float64)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


def same_compiled(one: Callable[..., Any], other: Callable[..., Any], *args: Any) -> None:
    """Both in one compilation, which takes half the time of two."""
    same(*jax.jit(lambda *args: (one(*args), other(*args)))(*args))


def parted(x: Any, w: Any) -> Any:
    """Two regions with a step between them that is in none, each with a derivative of its own."""
    y = unread(jax.nn.relu(x @ w))
    return jnp.sum(jax.nn.relu(y @ w - y) / (1 + y * y))


def beside(x: Any, w: Any) -> Any:
    """A region among what is left alone: a loop, a branch, and random numbers."""
    y = lax.fori_loop(0, 3, lambda at, y: jnp.tanh(y @ w), x)
    z = lax.cond(y[0, 0] > 0, jnp.sin, jnp.cos, y @ w)
    noise = jax.random.uniform(jax.random.key(3), x.shape)
    return jnp.sum(z * y + noise) / jnp.sum(y * y)


def recurrent(x: Any, w: Any) -> Any:
    """Regions in a loop over rows, from the last one, with a branch and another loop in it."""

    def step(h: Any, row: Any) -> tuple[Any, Any]:
        h = lax.cond(row[0] > 0, lambda h: jnp.tanh(h @ w + row), lambda h: h * w[0] + row, h)
        h = lax.fori_loop(0, 2, lambda at, h: jnp.sin(h @ w) * h, h)
        return h, jnp.sum(h * row)

    h, sums = lax.scan(step, jnp.zeros(6), x, reverse=True)
    return jnp.sum(h) / jnp.sum(sums * sums)


def invariant(x: Any, w: Any) -> Any:
    """Work in loops in loops that is alike in each step."""

    def step(h: Any, row: Any) -> tuple[Any, Any]:
        def inner(at: Any, h: Any) -> Any:
            return jnp.tanh(h @ jnp.sin(w * W + 1) + row * jnp.sum(w))

        return lax.fori_loop(0, 2, inner, h), jnp.sum(h * jnp.cos(w[0]))

    h, sums = lax.scan(step, jnp.zeros(6), x)
    return jnp.sum(h) + jnp.sum(sums)


@jax.custom_jvp
def ordered(x: Any, w: Any) -> Any:
    return unread(jnp.tanh(x @ w) * x) * jnp.sin(x)


@ordered.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return ordered(*primals), 3 * tangents[0]


def called(x: Any, w: Any) -> Any:
    """Regions in functions that say of their derivatives, beside what is no program."""
    drawn = jax.checkpoint(lambda x: jnp.sum(jnp.tanh(unread(x @ w) * x) ** 2))
    return drawn(x) + jnp.sum(ordered(x, w))


FUNCTIONS = {
    "parted": parted,
    "beside": beside,
    "recurrent": recurrent,
    "invariant": invariant,
    "called": called,
}

TRANSFORMED: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "jit": jax.jit,
    "grad": lambda f: jax.grad(f, argnums=(0, 1)),
    "value and grad": jax.value_and_grad,
    "jacfwd": jax.jacfwd,
    "jacrev": lambda f: jax.jacrev(f, argnums=1),
    "hessian": jax.hessian,
    "vmap": lambda f: lambda x, w: jax.vmap(f, in_axes=(0, None))(jnp.stack([x, 2 * x]), w),
    "vmap of all": lambda f: lambda x, w: jax.vmap(f)(jnp.stack([x, -x]), jnp.stack([w, w])),
    "vmap of vmap": lambda f: (
        lambda x, w: jax.vmap(jax.vmap(f, (0, None)), (None, 0))(
            jnp.stack([x, 3 * x]), jnp.stack([w, -w])
        )
    ),
    "vmap of grad": lambda f: lambda x, w: jax.vmap(jax.grad(f), (0, None))(jnp.stack([x, x]), w),
    "grad of vmap": lambda f: (
        lambda x, w: jax.grad(lambda x: jax.vmap(f, (0, None))(jnp.stack([x, 2 * x]), w).sum())(x)
    ),
    "jit of grad of jit": lambda f: jax.jit(jax.grad(jax.jit(f))),
    "jvp": lambda f: lambda x, w: jax.jvp(f, (x, w), (x, w)),
    "linearize": lambda f: lambda x, w: jax.linearize(f, x, w)[1](x, w),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
    "scan": lambda f: lambda x, w: lax.scan(lambda c, row: (c + f(x * row, w), c), 0.0, x[0])[0],
}


@pytest.mark.parametrize("transformation", TRANSFORMED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_transformation_gives_what_the_function_gives(name: str, transformation: str) -> None:
    f, transformed = FUNCTIONS[name], TRANSFORMED[transformation]
    fast, _ = spliced(f, X, W)
    same_compiled(transformed(fast), transformed(f), X, W)


@jax.custom_vjp
def steep(x: Any) -> Any:
    """Twice what it is given, and steeper than that."""
    return 2 * x


steep.defvjp(lambda x: (steep(x), None), lambda _, g: (5 * g,))
BACKWARDS = [
    "grad", "value and grad", "jacrev", "vmap", "vmap of grad", "grad of vmap",
    "jit of grad of jit",
]  # fmt: skip


@pytest.mark.parametrize("transformation", BACKWARDS)
def test_what_has_a_gradient_of_its_own_keeps_it(transformation: str) -> None:
    def f(x: Any, w: Any) -> Any:
        return jnp.sum(steep(jnp.tanh(x @ w)) * x)

    fast, regions = spliced(f, X, W)
    assert len(regions) == 1
    transformed = TRANSFORMED[transformation]
    same_compiled(transformed(fast), transformed(f), X, W)


def test_forwards_it_is_refused_as_the_function_refuses_it() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(steep(jnp.tanh(x)) * x)

    fast, _ = spliced(f, X)
    for function in (f, fast):
        with pytest.raises(TypeError, match="forward-mode autodiff"):
            jax.jvp(function, (X,), (X,))


def test_packed_arrays_have_no_gradient_of_their_own() -> None:
    def f(x: Any) -> Any:
        return steep(x @ W)

    made = cut(f, X)
    (subject,) = made.subjects
    packed = Packed((1,), lambda w: (w * 2,), lambda x, double: x @ double)
    fast = Spliced(made, {subject: packed})
    same(fast(X), f(X))
    same(jax.grad(lambda x: jnp.sum(fast(x)))(X), jax.grad(lambda x: jnp.sum(f(x)))(X))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_without_replacements_and_compilation_it_is_the_function(name: str) -> None:
    f = FUNCTIONS[name]
    plain = Spliced(cut(f, X, W))
    same(plain(X, W), f(X, W))
    same(jax.grad(plain)(X, W), jax.grad(f)(X, W))


def test_replacements_run_where_nothing_is_differentiated_or_batched() -> None:
    fast, regions = spliced(parted, X, W)
    jax.jit(fast)(X, W)
    assert [one.times for one in regions] == [1, 1]


@pytest.mark.parametrize("transformation", ["vmap", "grad", "hessian", "jacfwd"])
def test_derivatives_and_batches_are_the_originals(transformation: str) -> None:
    """What is compiled holds nothing of a replacement."""
    fast, _ = spliced(parted, X, W)
    compiled = jax.jit(TRANSFORMED[transformation](fast)).lower(X, W).as_text()
    assert "reduce_precision" in compiled
    assert "optimization_barrier" not in compiled


def test_derivatives_of_functions_with_rules_of_their_own_are_kept() -> None:
    """At zero, relu says that its derivative is zero; a maximum would say one half."""
    zeros = jnp.zeros((4, 6))
    fast, _ = spliced(lambda x: jnp.sum(jax.nn.relu(x) * 3 + x), zeros)
    same(jax.grad(fast)(zeros), jnp.ones((4, 6)))


def test_a_static_argument_behind_any_number_of_arrays_is_found_by_its_name() -> None:
    def f(*arrays: Any, mode: str = "sum") -> Any:
        return getattr(jnp, mode)(jnp.tanh(arrays[0] @ arrays[1]))

    for given in ({}, {"mode": "max"}):
        fast, _ = spliced(f, X, W, static_argnames="mode", **given)
        assert fast.cut.call.static == given
        same(fast(X + 1, W, **given), f(X + 1, W, **given))


def block(x: Any, w: Any) -> Any:
    weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((4, 4))) > 0, x @ x.T, -1e9))
    return jnp.trace(weights), jax.nn.gelu(weights @ x @ w) + x[0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("f", [parted, beside, block])
def test_programs_written_out_as_source_take_the_regions_places(
    f: Callable[..., Any], dtype: str
) -> None:
    x, w = X.astype(dtype), W.astype(dtype)
    made = cut(f, x, w)
    fast = Spliced(made, {subject: written(subject.program) for subject in made.subjects})
    digits = 1e-2 if dtype == "bfloat16" else 1e-5
    both = jax.jit(lambda x, w: (fast(x, w), f(x, w)))(x, w)
    for one, other in zip(*map(jax.tree.leaves, both), strict=True):
        assert jax.typeof(one) == jax.typeof(other)
        np.testing.assert_allclose(
            one.astype("float32"), other.astype("float32"), rtol=digits, atol=digits
        )


def written(program: Program) -> Callable[..., Any]:
    module: dict[str, Any] = {}
    exec(emit(program), module)
    found: Callable[..., Any] = module[names(program)[0]]
    return found


def test_layers_that_are_alike_are_replaced_by_one_computation() -> None:
    def mlp(params: Any, x: Any) -> Any:
        for weight in params:
            x = jnp.tanh(x @ weight)
        return {"x": x}

    params = [W, -W, W / 2, W * 2]
    fast, (layer,) = spliced(mlp, params, X)
    same(jax.jit(fast)(params, X), mlp(params, X))
    assert layer.times == 4


def test_another_spelling_is_what_is_computed() -> None:
    def trace(a: Any, b: Any) -> Any:
        return jnp.trace(a @ b)

    made = cut(trace, W, W)
    fast = Spliced(made, {made.subjects[0]: lambda a, b: jnp.vdot(a, b.T)})
    same(fast(W, W), jnp.trace(W @ W))
    same(jax.grad(fast)(W, W), jax.grad(trace)(W, W))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_element_types_are_kept(dtype: str) -> None:
    x, w = X.astype(dtype), W.astype(dtype)
    fast, _ = spliced(parted, x, w)
    same_compiled(jax.value_and_grad(fast), jax.value_and_grad(parted), x, w)
    same_compiled(fast, parted, x, w)


def test_double_precision_is_kept() -> None:
    with jax.enable_x64(True):
        x, w = jnp.asarray(np.asarray(X, np.float64)), jnp.asarray(np.asarray(W, np.float64))
        fast, regions = spliced(parted, x, w)
        assert regions
        same_compiled(fast, parted, x, w)
        same_compiled(jax.hessian(fast), jax.hessian(parted), x, w)


def test_weak_types_are_kept() -> None:
    def f(x: Any, scale: Any) -> Any:
        return jnp.sum(x * scale), scale * scale + jnp.exp(scale)

    fast, _ = spliced(f, X, 2.0)
    same(jax.jit(fast)(X, 2.0), f(X, 2.0))
    assert jax.typeof(fast(X, 2.0)[1]).weak_type


def test_whole_numbers_and_truth_values_pass_through() -> None:
    def f(x: Any, n: Any, shown: Any) -> Any:
        y = jnp.where(shown, x, 0.0) * n
        return jnp.sum(y @ y.T), n + 1, jnp.logical_not(shown), jnp.argmax(y)

    n, shown = jnp.arange(6), X > 0
    fast, regions = spliced(f, X, n, shown)
    assert regions
    same(jax.jit(fast)(X, n, shown), f(X, n, shown))
    first = jax.grad(lambda *args: fast(*args)[0])
    same(first(X, n, shown), jax.grad(lambda *args: f(*args)[0])(X, n, shown))
    found = jax.grad(lambda *args: fast(*args)[0], argnums=1, allow_int=True)(X, n, shown)
    assert found.dtype == jax.dtypes.float0


def test_effects_happen_once_and_in_order() -> None:
    said: list[float] = []

    def say(value: Any) -> None:
        said.append(float(value))

    def f(x: Any) -> Any:
        y = jnp.sum(x * x)
        io_callback(say, None, y, ordered=True)
        z = jnp.sum(jnp.exp(x) * x)
        io_callback(say, None, z, ordered=True)
        return y + z

    fast, regions = spliced(f, X)
    assert regions
    found = jax.jit(fast)(X)
    jax.effects_barrier()
    assert len(said) == 2
    same(found, jnp.asarray(sum(said), "float32"))
    assert said[0] == pytest.approx(float(jnp.sum(X * X)), rel=1e-5)


def test_trees_static_arguments_keywords_and_defaults() -> None:
    def f(tree: Any, power: int, /, scale: Any = 2.0, *, mode: str = "sum", shift: Any) -> Any:
        y = jnp.exp(tree["x"] @ tree["w"]) ** power * scale
        return {mode: jnp.sum(y) + shift, "nothing": None, "given": tree["x"], "one": 1}

    tree = {"x": X, "w": W}
    given: Mapping[str, Any] = {"mode": "mean", "shift": X[0, 0]}
    names = ["mode", "power"]
    fast, _ = spliced(f, tree, 3, static_argnames=names, **given)
    same(fast(tree, 3, **given), jax.jit(lambda: f(tree, 3, **given))())
    fast, _ = spliced(f, tree, 3, X[0, 0], static_argnums=1, static_argnames="mode", **given)
    same(fast(tree, 3, scale=X[0, 0], **given), jax.jit(lambda: f(tree, 3, X[0, 0], **given))())


def test_another_way_of_calling_is_refused() -> None:
    fast, _ = spliced(lambda x, n: x @ x.T * n, X, 3, static_argnums=-1)
    for args in [(X,), (X, 4), (X, 3.0), ([X], 3), (X, 3, 3)]:
        with pytest.raises(SpliceError, match="another way of calling"):
            fast(*args)


def test_results_may_be_arguments_literals_and_constants() -> None:
    array = np.arange(3.0, dtype=np.float32)

    def f(x: Any) -> Any:
        y = jnp.sum(x * x)
        return x, y, y, 2.5, jnp.asarray(array), jnp.zeros(2), None

    fast, _ = spliced(f, X)
    same(jax.jit(fast)(X), jax.jit(f)(X))


def test_a_replacement_of_another_shape_is_refused() -> None:
    made = cut(parted, X, W)
    fast = Spliced(made, {made.subjects[0]: lambda x, w: jnp.ones(3, int)})
    with pytest.raises(SpliceError, match=r"a replacement gives int32\[3\], not float32\[4, 6\]"):
        fast(X, W)


def test_a_replacement_of_nothing_is_refused() -> None:
    with pytest.raises(SpliceError, match="nothing in the function computes parted"):
        Spliced(cut(beside, X, W), {cut(parted, X, W).subjects[0]: jnp.add})


def test_what_a_loop_runs_is_replaced_until_its_condition_fails() -> None:
    def root(x: Any) -> Any:
        return lax.while_loop(
            lambda y: jnp.sum(jnp.abs(y * y - x)) > 1e-3, lambda y: (y + x / y) / 2, x
        )

    x = jnp.abs(X) + 1
    fast, replacements = spliced(root, x)
    same(fast(x), root(x))
    assert [one.times for one in replacements] == [1, 1]
    same(jax.jvp(fast, (x,), (X,)), jax.jvp(root, (x,), (X,)))


def test_a_loop_whose_condition_is_an_array_runs_as_it_is() -> None:
    """`jax.vmap` makes of a loop that ends by its data one whose condition is that of each row."""

    def shrunk(row: jax.Array) -> jax.Array:
        def step(row: jax.Array) -> jax.Array:
            return 0.9 * row / (1 + 0.1 * jnp.mean(row * row))

        return lax.while_loop(lambda row: jnp.mean(row * row) + jnp.mean(row) > 0.1, step, row)

    fast, replacements = spliced(lambda x: jnp.tanh(jax.vmap(shrunk)(x)) * jnp.mean(x * x), X)
    same_compiled(fast, fast.cut.function, X)
    assert [replacement.times for replacement in replacements] == [1]


def test_weak_types_in_a_loop_are_kept() -> None:
    def total(x: Any) -> Any:
        return lax.scan(lambda c, row: (c * 2 + jnp.sum(row), c * c + 1), 0.0, x)

    fast, _ = spliced(total, X)
    same(fast(X), total(X))
    same(jax.jit(fast)(X), jax.jit(total)(X))


def packed_product(otherwise: Any = None) -> Packed:
    """A product with weights that were transposed beforehand."""
    return Packed(
        positions=(1,),
        pack=lambda w: (jnp.asarray(w.T + 0),),
        run=lambda x, turned: lax.dot_general(x, turned, (((1,), (1,)), ((), ()))),
        otherwise=otherwise,
    )


def test_arrays_that_were_closed_over_are_packed() -> None:
    made = cut(lambda x: x @ W, X)
    fast = Spliced(made, {made.subjects[0]: packed_product()})
    (packs,) = fast.packs({})
    assert packs is not None
    np.testing.assert_array_equal(packs[0], W.T)
    same(fast(X), X @ W)
    same(jax.grad(lambda x: fast(x).sum())(X), jax.grad(lambda x: (x @ W).sum())(X))


def test_what_a_loop_takes_unchanged_is_packed_before_it() -> None:
    def steps(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda at, y: y @ W, x)

    made = cut(steps, X)
    (subject,) = made.subjects
    assert subject.constant == (0,)
    packed = Packed((0,), lambda w: (jnp.asarray(w.T + 0),), lambda y, turned: y @ turned.T)
    fast = Spliced(made, {subject: packed})
    same(fast(X), steps(X))
    same(jax.jit(jax.grad(lambda x: jnp.sum(fast(x))))(X), jax.grad(lambda x: jnp.sum(steps(x)))(X))
    assert [None if one is None else len(one) for one in fast.packs({})] == [None, None, 1]


def test_what_is_packed_is_kept_and_no_part_of_a_callers_trace() -> None:
    """It is made again for other arrays only."""
    made = cut(lambda x, w: x @ w + x @ W, X, W, constant_argnums=1)
    packed: list[Any] = []

    def pack(*weights: Any) -> tuple[Any, ...]:
        packed.append(weights)
        return (weights[0] + weights[1],)

    (subject,) = made.subjects
    assert subject.constant == (1, 2)
    fast = Spliced(made, {subject: Packed((1, 2), pack, lambda x, w: x @ w)})
    jax.jit(lambda x: fast.flat([x, W], fast.packs({1: W})))(X)
    (found,) = fast.flat([X, W], fast.packs({1: W}))
    same(found, X @ (W + W))
    assert [[type(one) for one in weights] for weights in packed] == [[type(W), type(W)]]
    fast.packs({1: W + 1})
    assert len(packed) == 2


def test_arguments_are_packed_where_they_are_said_to_stay() -> None:
    made = cut(lambda x, w: x @ w, X, W, constant_argnums=1)
    otherwise = Counted(made, made.subjects[0])
    fast = Spliced(made, {made.subjects[0]: packed_product(otherwise)})
    assert fast.packs({}) == (None,)
    (found,) = fast.flat([X, W], fast.packs({1: W}))
    same(found, X @ W)
    assert otherwise.times == 0
    same(fast(X, W), X @ W)
    assert otherwise.times == 1


def test_numpys_arrays_that_were_closed_over_stay_what_they_were() -> None:
    """Packed or not, as under `jax.jit`: what runs never mixes what they were at several times."""
    mine = np.array(W)
    made = cut(lambda x: jnp.tanh(unread(x @ mine)) @ mine, X)
    first, _ = made.subjects
    fast = Spliced(made, {first: packed_product()})
    mine[:] = 0
    same(fast(X), jnp.tanh(unread(X @ W)) @ W)


def test_what_there_is_no_memory_to_pack_runs_without() -> None:
    made = cut(lambda x, w: x @ w, X, W, constant_argnums=1)
    (subject,) = made.subjects
    otherwise = Counted(made, subject)
    vast = Packed((1,), lambda w: (jnp.zeros(1 << 45),), lambda x, packed: x, otherwise)
    fast = Spliced(made, {subject: vast})
    assert fast.packs({1: W}) == (None,)
    assert fast.too_large == {subject}
    (found,) = fast.flat([X, W], fast.packs({1: W}))
    same(found, X @ W)
    assert otherwise.times == 1


def test_another_failure_to_pack_is_seen() -> None:
    made = cut(lambda x, w: x @ w, X, W, constant_argnums=1)

    def pack(weight: Any) -> Any:
        raise RuntimeError("not packed")

    fast = Spliced(made, {made.subjects[0]: Packed((1,), pack, lambda x, packed: x)})
    with pytest.raises(RuntimeError, match="not packed"):
        fast.packs({1: W})
