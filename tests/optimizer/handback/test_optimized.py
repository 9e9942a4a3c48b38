"""The callable that is handed back: where it is fast, and where it is the original."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from aiosearch.optimizer.handback.dispatch import ENOUGH, CallGuard, Home
from aiosearch.optimizer.handback.optimized import FunctionWrapper, Optimized, original_of
from aiosearch.optimizer.trace import Packed, Spliced, cut

X = jnp.linspace(-1.0, 2.0, 24).reshape(4, 6)
W = jnp.linspace(0.5, -1.0, 36).reshape(6, 6)


class Runs:
    """A function, optimized, that counts the calls of the original and its replacements' traces."""

    def __init__(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self.originals = 0
        self.replaced = 0

        def told(*args: Any, **kwargs: Any) -> Any:
            self.originals += 1
            return f(*args, **kwargs)

        told.__signature__ = inspect.signature(f)  # type: ignore[attr-defined]
        made = cut(told, *args, **kwargs)
        self.fast: Optimized[..., Any] = Optimized(
            Spliced(made, {one.subject: self.counted(one.original) for one in made.regions})  # type: ignore[misc]
        )
        self.originals = 0

    def counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def replacement(*inputs: Any) -> Any:
            self.replaced += 1
            return original(*inputs)

        return replacement


def product(x: Any, w: Any, *, scale: Any = 2.0) -> Any:
    """Says what it does."""
    return {"found": jnp.tanh(x @ w) * scale}


def test_it_looks_like_the_function() -> None:
    report = object()
    fast = Optimized(Spliced(cut(product, X, W)), source="import jax\n", report=report)
    assert fast.__name__ == "product"
    assert fast.__doc__ == "Says what it does."
    assert fast.__wrapped__ is fast.original is product
    assert inspect.signature(fast) == inspect.signature(product)
    assert fast.source() == "import jax\n"
    assert fast.report is report
    assert repr(fast) == "<optimized product>"


def test_the_functions_attributes_hide_none_of_its_own() -> None:
    def f(x: Any) -> Any:
        return jnp.tanh(x)

    f.version, f.source, f.attempt, f.report = 3, "a file", None, None  # type: ignore[attr-defined]
    fast: Any = Optimized(Spliced(cut(f, X)), source="import jax\n")
    assert fast.version == 3
    assert fast.source() == "import jax\n"
    assert fast.attempt((X,), {}).shape == X.shape
    assert fast.__wrapped__ is f


def test_calls_that_it_was_made_for_are_fast() -> None:
    """Compiled once, whether arguments come by position or by name, from NumPy or from jax."""
    runs = Runs(product, X, W)
    for found in [
        runs.fast(X, W),
        runs.fast(X, w=W),
        runs.fast(w=W, x=X),
        runs.fast(np.asarray(X), np.asarray(W, np.float64)),
    ]:
        np.testing.assert_allclose(found["found"], product(X, W)["found"], rtol=1e-6)
    assert (runs.originals, runs.replaced) == (0, 1)


OTHERS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "shape": lambda f: f(X[:2], W),
    "type": lambda f: f(X.astype("bfloat16"), W.astype("bfloat16")),
    "another argument": lambda f: f(X, W, scale=3.0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_calls_are_the_originals(name: str) -> None:
    runs = Runs(product, X, W)
    found, wanted = OTHERS[name](runs.fast), OTHERS[name](product)
    np.testing.assert_array_equal(found["found"], wanted["found"])
    assert (runs.originals, runs.replaced) == (1, 0)


def test_bytes_in_another_order_are_the_originals() -> None:
    """To jax such an array is of the same type, and a kernel would read its bytes as they lie."""
    runs = Runs(product, X, W)
    swapped = np.asarray(X).astype(np.dtype(np.float32).newbyteorder())
    assert runs.fast.takes(np.asarray(X), W)
    assert not runs.fast.takes(swapped, W)


def test_other_calls_in_between_change_nothing() -> None:
    """What was compiled stays so; nothing is traced in vain a second time."""
    runs = Runs(product, X, W)
    for rows in (4, 3, 4, 2, 4):
        runs.fast(X[:rows], W)
    assert (runs.originals, runs.replaced) == (2, 1)


def test_a_type_error_of_the_functions_own_is_seen() -> None:
    def picky(x: Any, w: Any) -> Any:
        if x.shape[0] == 3:
            raise TypeError("not three")
        return x @ w

    runs = Runs(picky, X, W)
    with pytest.raises(TypeError, match="not three"):
        runs.fast(X[:3], W)
    np.testing.assert_allclose(runs.fast(X, W), X @ W, rtol=1e-6)
    assert (runs.originals, runs.replaced) == (1, 1)


def test_a_weak_type_is_another_type() -> None:
    runs = Runs(lambda x, scale: jnp.tanh(x @ x.T) * scale, X, 2.0)
    assert runs.fast(X, 2.0).dtype == "float32"
    assert runs.originals == 0
    runs.fast(X, jnp.float32(2.0))
    assert runs.originals == 1
    with jax.numpy_dtype_promotion("strict"):
        runs.fast(X, 2.0)
    assert runs.originals == 2


def test_static_arguments_are_compared_by_type_and_value() -> None:
    runs = Runs(lambda x, n: jnp.tanh(x @ x.T) * n, X, 3, static_argnums=1)
    runs.fast(X, 3)
    assert runs.originals == 0
    assert runs.fast(X, 3.0).shape == runs.fast(X, 4).shape == (4, 4)
    assert runs.originals == 2


def test_arguments_of_the_wrong_kind_get_the_originals_error() -> None:
    runs = Runs(product, X, W)
    with pytest.raises(TypeError, match="missing"):
        runs.fast(X)
    with pytest.raises(TypeError, match="unsupported operand"):
        runs.fast("text", W)


def test_settings_of_jax_are_part_of_what_it_was_made_for() -> None:
    runs = Runs(product, X, W)
    runs.fast(X, W)
    assert (runs.originals, runs.replaced) == (0, 1)
    with jax.enable_x64(True):
        runs.fast(X, W)
    with jax.default_matmul_precision("highest"):
        runs.fast(X, W)
    with jax.disable_jit():
        runs.fast(X, W)
    assert (runs.originals, runs.replaced) == (3, 1)


def test_a_callers_trace_is_told_apart_by_shapes_and_types() -> None:
    runs = Runs(product, X, W)
    outer = jax.jit(lambda x, w: runs.fast(x + 1, w)["found"].sum())
    np.testing.assert_allclose(outer(X, W), product(X + 1, W)["found"].sum(), rtol=1e-5)
    assert (runs.originals, runs.replaced) == (0, 1)
    outer(X[:3], W)
    assert (runs.originals, runs.replaced) == (1, 1)


def test_batches_and_derivatives_are_the_originals() -> None:
    runs = Runs(product, X, W)

    def loss(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, w: jnp.sum(f(x, w)["found"] ** 2)

    for transformed in (jax.grad, jax.hessian):
        found, wanted = transformed(loss(runs.fast))(X, W), transformed(loss(product))(X, W)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    rows = jnp.stack([X, X + 1])
    batch = jax.vmap(runs.fast, (0, None))(rows, W)["found"]
    np.testing.assert_allclose(batch, product(rows, W)["found"], rtol=1e-5)


def test_arrays_that_are_spread_or_in_another_memory_run_the_original() -> None:
    runs = Runs(product, X, W)
    mesh = jax.sharding.Mesh(jax.devices(), "rows")
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    runs.fast(jax.device_put(X, spread), jax.device_put(W, spread))
    assert runs.originals == 1
    (device, *_) = jax.devices()
    kinds = {memory.kind for memory in device.addressable_memories()}
    for kind in kinds - {device.default_memory().kind}:
        elsewhere = jax.sharding.SingleDeviceSharding(device, memory_kind=kind)
        runs.originals = 0
        runs.fast(jax.device_put(X, elsewhere), jax.device_put(W, elsewhere))
        assert runs.originals == 1


def test_without_replacements_it_is_the_original_compiled() -> None:
    """For each kind of call once, as under `jax.jit`."""
    assert Optimized(Spliced(cut(product, X, 2 * W)))(X, W)["found"].shape == (4, 6)
    calls: list[Any] = []
    f: Any = lambda x: calls.append(type(x)) or x @ x.T  # noqa: E731
    fast = Optimized(Spliced(cut(f, X)))
    for _ in range(3):
        np.testing.assert_allclose(fast(X), X @ X.T, rtol=1e-5)
    assert len(calls) == 2  # each time it was traced
    for _ in range(3):
        fast(X[:2])
    assert len(calls) == 3


def test_without_replacements_no_code_of_ours_runs_in_a_call() -> None:
    """Python goes from the call to what `jax.jit` made, and static arguments stay static."""
    fast: Optimized[..., Any] = Optimized(Spliced(cut(scaled, X, 3, static_argnums=1)))
    fast(X, 3)
    calls: list[str] = []
    sys.setprofile(lambda frame, event, argument: calls.append(event))
    try:
        fast(X, 3)
    finally:
        sys.setprofile(None)
    assert "call" not in calls
    np.testing.assert_allclose(fast(X, times=4), scaled(X, 4), rtol=1e-6)
    assert isinstance(fast, Optimized)
    assert type(fast).__name__ == "Optimized"


def scaled(x: Any, times: int) -> Any:
    assert isinstance(times, int)
    return jnp.tanh(x) * times


def test_without_replacements_a_compiled_function_is_called_as_it_is() -> None:
    compiled = jax.jit(lambda x, w: product(x, w))
    fast = Optimized(Spliced(cut(compiled, X, W)))
    before = compiled._cache_size()
    fast(X, W)
    fast(X[:2], W)
    assert compiled._cache_size() == before + 2


def test_constant_weights_are_packed_as_long_as_they_are_the_same_array() -> None:
    """A tracer or another array takes the way without packing."""
    ways: list[str] = []

    def plain(x: Any, w: Any) -> Any:
        ways.append("plain")
        return x @ w

    def packed(x: Any, turned: Any) -> Any:
        ways.append("packed")
        return jax.lax.dot_general(x, turned, (((1,), (1,)), ((), ())))

    made = cut(lambda x, w: x @ w, X, W, constant_argnums=1)
    spare = Packed((1,), lambda w: (w.T + 0,), packed, otherwise=plain)
    fast: Optimized[..., Any] = Optimized(Spliced(made, {made.subjects[0]: spare}))
    for weight in [W, 2 * W, W]:
        np.testing.assert_allclose(fast(X, weight), X @ weight, rtol=1e-5)
    assert ways == ["packed", "plain"]
    np.testing.assert_allclose(jax.jit(lambda w: fast(X, w))(W), X @ W, rtol=1e-5)
    found = jax.grad(lambda x: fast(x, W).sum())(X)
    np.testing.assert_allclose(found, jax.grad(lambda x: (x @ W).sum())(X), rtol=1e-5)
    weights = jax.grad(lambda w: fast(X, w).sum())(W)
    np.testing.assert_allclose(weights, jax.grad(lambda w: (X @ w).sum())(W), rtol=1e-5)


def test_one_of_one_is_its_own() -> None:
    """What the inner one has to say, and how it runs, stays the inner one's."""
    inner = Runs(product, X, W).fast
    report = object()
    fast = Optimized(Spliced(cut(inner, X[:2], W)), source="import jax\n", report=report)  # type: ignore[arg-type]
    assert (fast.report, fast.source()) == (report, "import jax\n")
    assert (inner.report, inner.source()) == (None, "")
    assert fast.original is fast.__wrapped__ is inner
    assert fast.takes(X[:2], W)
    assert not fast.takes(X, W)
    np.testing.assert_allclose(fast(X, W)["found"], product(X, W)["found"], rtol=1e-6)


def test_attributes_of_the_function_are_there() -> None:
    def f(x: Any) -> Any:
        return x @ x.T

    f.unit = "m"  # type: ignore[attr-defined]
    assert Optimized(Spliced(cut(f, X))).unit == "m"  # type: ignore[attr-defined]


def test_it_is_a_method_where_a_class_has_it() -> None:
    class Layer:
        product = Runs(lambda self, x: x @ x.T, 2.0, X).fast

    assert isinstance(Layer.product, Optimized)
    with pytest.raises(TypeError):
        Layer().product(X, X)
    assert Layer().product(X).shape == (4, 4)


def other_memory() -> jax.sharding.Sharding:
    """A kind of place that arrays do not come to of themselves."""
    (device, *_) = jax.devices()
    kinds = {memory.kind for memory in device.addressable_memories()}
    kind = max(kinds - {device.default_memory().kind}, default=None)
    if kind is None:
        pytest.skip("this device has one memory")
    return jax.sharding.SingleDeviceSharding(device, memory_kind=kind)


def test_made_for_another_place_it_takes_nothing_that_comes_to_the_usual_one() -> None:
    """Shapes lie nowhere: which place is meant is said beside them."""
    elsewhere = other_memory()
    made = cut(product, *(jax.ShapeDtypeStruct(one.shape, one.dtype) for one in (X, W)))
    fast: Optimized[..., Any] = Optimized(Spliced(made), device=elsewhere)
    usual: Optimized[..., Any] = Optimized(Spliced(made))
    there = [jax.device_put(one, elsewhere) for one in (X, W)]
    here = [np.asarray(one) for one in (X, W)]
    assert fast.takes(*there)
    assert fast.takes(there[0], here[1])
    assert not fast.takes(X, W)
    assert not fast.takes(*here)
    assert usual.takes(X, W)
    assert usual.takes(*here)
    assert not usual.takes(*there)
    tracers: list[bool] = []
    jax.jit(lambda x, w: tracers.append(fast.takes(x, w)))(X, W)
    assert tracers == [False]


def test_made_for_another_place_it_runs_there() -> None:
    elsewhere = other_memory()
    there = [jax.device_put(one, elsewhere) for one in (X, W)]
    runs = Runs(product, *there)
    for _ in range(2):
        np.testing.assert_allclose(runs.fast(*there)["found"], product(X, W)["found"], rtol=1e-6)
    assert (runs.originals, runs.replaced) == (0, 1)
    runs.fast(X, W)
    assert runs.originals == 1


def test_where_there_are_several_devices_arrays_at_home_are_not_looked_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As beside a GPU, where each call took as long in Python as some kernels take."""
    monkeypatch.setattr(jax, "device_count", lambda: 2)
    runs = Runs(product, X, W)
    runs.fast(X, W)
    looked: list[int] = []
    leaves = CallGuard.leaves
    monkeypatch.setattr(
        CallGuard, "leaves", lambda self, *given: looked.append(1) or leaves(self, *given)
    )
    for _ in range(3):
        np.testing.assert_allclose(runs.fast(X, W)["found"], product(X, W)["found"], rtol=1e-6)
    assert not looked
    there = jax.device_put(X, other_memory())
    runs.fast(there, W)
    assert looked
    assert (runs.originals, runs.replaced) == (1, 1)


def test_nothing_but_arrays_of_the_device_is_at_home() -> None:
    home = Home(CallGuard(cut(product, X, W)))
    assert home.has((X, W), {})
    assert home.has((X + 1, W), {})
    assert not home.has((X, np.asarray(W)), {})
    assert not home.has((X, jax.device_put(W, other_memory())), {})
    assert not home.has((X,), {"w": W})
    with jax.default_device(jax.devices()[0]):
        assert not home.has((X, W), {})
    tracers: list[bool] = []
    jax.jit(lambda x, w: tracers.append(home.has((x, w), {})))(X, W)
    assert tracers == [False]


def test_it_is_made_for_the_settings_under_which_it_was_traced() -> None:
    made = cut(product, X, W)
    with jax.enable_x64(True):
        fast: Optimized[..., Any] = Optimized(Spliced(made))
        assert not fast.takes(X, W)
    assert fast.takes(X, W)


def test_a_copy_is_itself_and_pickle_is_told_what_to_do() -> None:
    fast = Optimized(Spliced(cut(product, X, W)))
    assert copy.copy(fast) is fast
    assert copy.deepcopy([fast])[0] is fast
    with pytest.raises(TypeError, match="optimize product in the other process"):
        pickle.dumps(fast)


def test_its_text_has_no_arrays() -> None:
    """A partial's own text has those that it holds."""
    fast = Optimized(Spliced(cut(functools.partial(product, X), W)))
    assert repr(fast) == "<optimized partial of product>"
    assert repr(Optimized(Spliced(cut(product, X, W)))) == "<optimized product>"


class Held:
    """An array as a framework holds it: jax takes it for one, but does not tell its type."""

    def __jax_array__(self) -> jax.Array:
        return W


def test_what_has_no_type_for_jax_is_the_originals() -> None:
    runs = Runs(product, X, W)
    wanted = product(X, W)["found"]
    for _ in range(2):
        np.testing.assert_array_equal(runs.fast(X, Held())["found"], wanted)
    scaled = Runs(lambda x, s: x @ x.T + jax.random.normal(jax.random.key(s), (4, 4)), X, 0)
    assert scaled.fast(X, 2**40).shape == (4, 4)
    assert runs.originals == 2
    assert scaled.originals == 1


def test_after_other_calls_it_is_soon_as_quick_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of another kind ends that calls are not looked at; many of its own begin it again."""
    runs = Runs(product, X, W)
    looked: list[int] = []
    leaves = CallGuard.leaves
    monkeypatch.setattr(
        CallGuard, "leaves", lambda self, *given: looked.append(1) or leaves(self, *given)
    )
    runs.fast(X, W)
    runs.fast(X[:2], W)
    looked.clear()
    for _ in range(ENOUGH):
        runs.fast(X, W)
    assert len(looked) == ENOUGH
    looked.clear()
    for _ in range(3):
        runs.fast(X, W)
    assert not looked


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jax_random_seed_offset", 7),
        ("jax_numpy_rank_promotion", "raise"),
        ("jax_default_prng_impl", "rbg"),
        ("jax_threefry_partitionable", False),
    ],
)
def test_settings_of_random_numbers_and_of_ranks_are_part_of_it_too(name: str, value: Any) -> None:
    runs = Runs(product, X, W)
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        runs.fast(X, W)
    finally:
        jax.config.update(name, before)
    assert runs.originals == 1


@pytest.mark.parametrize("compiled", [True, False])
def test_what_donates_its_arrays_is_left_as_it_is(compiled: bool) -> None:
    """What stood in its place would keep them, and copy what it could have changed."""
    inner = jax.jit(lambda s, x: s - 0.1 * jnp.tanh(s @ x), donate_argnums=0)
    function = inner if compiled else lambda s, x: inner(s, x)
    made = cut(function, W, W)
    assert made.donates
    assert made.subjects == ()
    assert "donates arrays" in made.left_alone[0]
    state = W + 0
    Optimized(Spliced(made))(state, W)
    assert state.is_deleted()
    assert not cut(jax.jit(function), W, W).donates or compiled


def test_in_whose_place_it_is_called() -> None:
    """However often, and as a method too, which stays bound."""

    class Model:
        scale = 3.0

        @FunctionWrapper
        @FunctionWrapper
        def twice(self, x: float) -> float:
            return self.scale * x

    model = Model()
    found = original_of(model.twice)
    assert found.__self__ is model  # type: ignore[attr-defined]
    assert found(2.0) == 6.0
    assert original_of(Model.twice) is found.__func__  # type: ignore[attr-defined]
    assert original_of(product) is product
    assert original_of(partial := functools.partial(product, X)) is partial
    inner: Any = original_of(functools.partial(FunctionWrapper(product), X, scale=3.0))
    assert (inner.func, inner.args, inner.keywords) == (product, (X,), {"scale": 3.0})


def test_partials_of_other_classes() -> None:
    """jax's own is a tree of what it holds, and stays one; nobody knows what another one is."""

    class Own(functools.partial[Any]):
        pass

    partial: Any = jax.tree_util.Partial(FunctionWrapper(product), X)
    partial.tag = "mine"
    found: Any = original_of(partial)
    assert (type(found), found.func, found.tag) == (jax.tree_util.Partial, product, "mine")
    assert original_of(own := Own(FunctionWrapper(product), X)) is own
