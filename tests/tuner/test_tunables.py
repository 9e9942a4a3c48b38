"""Tunable functions: what a call looks up, under which transformations, and what it says."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import aiosearch
from aiosearch.tuner import (
    RecordTable,
    Sampler,
    SpaceError,
    Tunable,
    TuningRecord,
    UntunedWarning,
    tunable,
)
from aiosearch.tuner.tunables import device_name

used: list[int] = []


def space(s: Sampler, x: Any) -> None:
    s.categorical("block", (1, 2, 4, 8))
    s.require(lambda block: x.shape[0] % block == 0, "blocks divide the rows")


def make(path: Path, reference: Any = None) -> Tunable[..., Any]:
    @tunable(space, reference=reference, table=path, name="k")
    def kernel(x: jax.Array, *, block: int = 1) -> jax.Array:
        used.append(block)
        return x * 2

    return kernel


@pytest.fixture(autouse=True)
def _nothing_used() -> Iterator[None]:
    used.clear()
    return


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "table.json"


def record(rows: int, block: int, device: str = "", **more: Any) -> TuningRecord:
    return TuningRecord(
        kernel="k",
        arguments=(f"f32[{rows},4]",),
        device=device or device_name(),
        configuration={"block": block},
        decisions={"block": block},
        **more,
    )


def test_a_call_runs_with_its_record(path: Path) -> None:
    kernel = make(path)
    RecordTable(path).put(record(8, 4))
    assert kernel(jnp.ones((8, 4))).sum() == 64
    assert used == [4]


def test_a_call_finds_its_record_inside_every_transformation(path: Path) -> None:
    kernel = make(path)
    RecordTable(path).put(record(8, 4))
    x = jnp.ones((8, 4))
    jax.jit(lambda y: kernel(y))(x)
    jax.grad(lambda y: kernel(y).sum())(x)
    jax.jvp(lambda y: kernel(y), (x,), (x,))
    jax.vmap(kernel)(jnp.ones((3, 8, 4)))  # each is of the kind that the record is of
    jax.eval_shape(lambda y: kernel(y), x)
    assert used == [4] * 5


def test_a_call_finds_its_record_inside_shard_map(path: Path) -> None:
    kernel = make(path)
    RecordTable(path).put(record(8, 4))
    mesh = jax.make_mesh((1,), ("x",))
    spec = jax.sharding.PartitionSpec("x")
    x = jax.device_put(jnp.ones((8, 4)), jax.sharding.NamedSharding(mesh, spec))
    jax.jit(jax.shard_map(kernel, mesh=mesh, in_specs=spec, out_specs=spec))(x)
    assert used == [4]


def test_what_a_caller_says_goes_before_the_record(path: Path) -> None:
    kernel = make(path)
    RecordTable(path).put(record(8, 4))
    kernel(jnp.ones((8, 4)), block=2)
    assert used == [2]


def test_a_miss_takes_the_nearest_record_that_fits_and_says_so_once(path: Path) -> None:
    """Of 6 rows a block of 4 is no divisor, and that of 32 rows is far; 2 of 4 rows is next."""
    kernel = make(path)
    RecordTable(path).put(record(8, 4), record(4, 2), record(32, 1))
    with pytest.warns(
        UntunedWarning, match=r"not tuned for f32\[6,4\], and runs as for f32\[4,4\]"
    ):
        kernel(jnp.ones((6, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(jnp.ones((6, 4)))
    assert used == [2, 2]


def test_a_device_without_records_takes_those_of_another(path: Path) -> None:
    kernel = make(path)
    RecordTable(path).put(record(8, 4, device="another"))
    with pytest.warns(UntunedWarning, match="on another"):
        kernel(jnp.ones((8, 4)))
    assert used == [4]


def test_without_any_record_the_default_runs(path: Path) -> None:
    kernel = make(path)
    with pytest.warns(UntunedWarning, match="runs with its default: block=1"):
        kernel(jnp.ones((8, 4)))
    assert used == [1]


def test_a_record_of_the_reference_calls_it(path: Path) -> None:
    kernel = make(path, reference=lambda x: x * 3)
    RecordTable(path).put(record(8, 4, winner="reference"))
    assert kernel(jnp.ones((8, 4))).sum() == 96
    assert used == []


def test_where_no_point_fits_the_reference_runs(path: Path) -> None:
    def none(s: Sampler, x: Any) -> None:
        s.categorical("block", (3,))
        s.require(lambda block: x.shape[0] % block == 0, "blocks divide the rows")

    @tunable(none, reference=lambda x: x * 3, table=path)
    def kernel(x: jax.Array, *, block: int = 3) -> jax.Array:
        raise AssertionError

    with pytest.warns(UntunedWarning, match="runs its reference"):
        assert kernel(jnp.ones((8, 4))).sum() == 96


def test_where_no_point_fits_and_there_is_no_reference_the_reason_is_given(path: Path) -> None:
    def none(s: Sampler, x: Any) -> None:
        s.categorical("block", (3,))
        s.require(lambda block: x.shape[0] % block == 0, "blocks divide the rows")

    @tunable(none, table=path)
    def kernel(x: jax.Array, *, block: int = 3) -> jax.Array:
        return x

    with pytest.raises(SpaceError, match="blocks divide the rows"):
        kernel(jnp.ones((8, 4)))


def test_a_table_that_changes_is_read_again(path: Path) -> None:
    kernel = make(path)
    RecordTable(path).put(record(8, 4))
    kernel(jnp.ones((8, 4)))
    RecordTable(path).put(record(8, 2))
    kernel(jnp.ones((8, 4)))
    assert used == [4, 2]


def test_a_space_may_return_the_parameters(path: Path) -> None:
    def derived(s: Sampler, x: Any) -> dict[str, Any]:
        return {"block": s.tile("rows", x.shape[0], parts=2)[1]}

    @tunable(derived, table=path)
    def kernel(x: jax.Array, *, block: int = 1) -> jax.Array:
        used.append(block)
        return x

    with pytest.warns(UntunedWarning):
        kernel(jnp.ones((8, 4)))
    assert used == [1]


def test_sites_that_no_parameter_is_called_as_are_named(path: Path) -> None:
    def misspelt(s: Sampler, x: Any) -> None:
        s.categorical("blok", (1, 2))

    @tunable(misspelt, table=path)
    def kernel(x: jax.Array, *, block: int = 1) -> jax.Array:
        return x

    with pytest.raises(SpaceError, match="did you mean block"):
        kernel(jnp.ones((8, 4)))


def test_other_arguments_tell_calls_apart(path: Path) -> None:
    @tunable(lambda s, x, scale: s.categorical("block", (1, 2)) and None, table=path, name="k")
    def kernel(x: Any, scale: float, *, block: int = 1) -> Any:
        used.append(block)
        return x

    entry = record(8, 2)
    arguments = ("f32[8,4]", "0.5")
    from msgspec.structs import replace

    RecordTable(path).put(replace(entry, arguments=arguments))
    kernel(np.ones((8, 4), np.float32), 0.5)
    with pytest.warns(UntunedWarning):
        kernel(np.ones((8, 4), np.float32), 2.0)
    assert used == [2, 1]


def test_it_is_one_of_the_public_names() -> None:
    assert aiosearch.tunable is tunable
    assert {"tunable", "tune", "tune_sync"} <= set(aiosearch.__all__)
