"""Which platform a target means, and which arrays go with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from aiosearch.codegen.pallas import missing_mosaic
from aiosearch.optimizer.device_kind import (
    described_gpu,
    device,
    gpu_units,
    has_mosaic,
    platform,
    undescribed_reason,
)
from aiosearch.optimizer.errors import OptimizeError
from aiosearch.optimizer.trace.traced import trace


def on(name: str) -> Any:
    """A place on a platform, which need not be here."""
    return SimpleNamespace(device_set=[SimpleNamespace(platform=name)])


def test_a_target_is_for_arrays_that_lie_there_or_nowhere_yet() -> None:
    assert platform("cpu") == platform("cpu", [None, on("cpu"), None]) == "cpu"
    for places in ([on("gpu")], [on("cpu"), on("gpu")]):
        with pytest.raises(OptimizeError, match="an array lies on cuda, and the target is cpu"):
            platform("cpu", places)


def test_arrays_that_are_spread_over_devices_are_refused() -> None:
    """What would be timed on one of them says nothing of all."""
    both = SimpleNamespace(device_set=[SimpleNamespace(platform="cpu")] * 2)
    with pytest.raises(OptimizeError, match="spread over several devices"):
        platform("auto", [on("cpu"), both])


def test_on_its_own_it_is_where_the_arrays_lie() -> None:
    assert platform("auto", [on("gpu"), None]) == "cuda"
    assert platform("auto", [on("cpu")]) == "cpu"
    assert platform("auto") == ("cuda" if jax.default_backend() == "gpu" else "cpu")
    with pytest.raises(OptimizeError, match="an array lies on tpu"):
        platform("auto", [on("tpu")])


def test_a_platforms_device_is_one_of_it() -> None:
    assert device("cpu").platform == "cpu"


def test_all_that_is_given_or_closed_over_is_asked() -> None:
    """Also what there is not yet; but one device of what is closed over, as jax moves that."""
    (device,) = jax.devices("cpu")[:1]
    one = jax.sharding.SingleDeviceSharding(device)
    held = jnp.ones(4)
    given = jax.ShapeDtypeStruct((4,), jnp.float32, sharding=one)
    assert trace(lambda x: x + held, given).shardings == (one,)
    assert trace(lambda x: x + held, held).shardings == (held.sharding,)
    assert trace(lambda x: x + held, jax.ShapeDtypeStruct((4,), jnp.float32)).shardings == ()


SPREAD = """
import jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from aiosearch.optimizer import OptimizeError, optimize_sync

mesh = jax.make_mesh((2,), ("x",), devices=jax.devices()[:2])
spread = NamedSharding(mesh, PartitionSpec("x"))
w = jax.device_put(jnp.ones((8, 8)), spread)
struct = jax.ShapeDtypeStruct((8, 8), jnp.float32)
for function, given in (
    (lambda x: x @ w, struct),
    (lambda x: x @ w, jnp.ones((8, 8))),
    (jax.jit(lambda x: x @ w), jnp.ones((8, 8))),
    (lambda x: x @ x, jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=spread)),
    (lambda x: x @ x, w),
):
    try:
        optimize_sync(function, given, effort="quick")
    except OptimizeError as error:
        print(error)
"""


def test_nothing_that_is_spread_is_taken(tmp_path: Path) -> None:
    """Neither what is given, nor what is to be, nor what is closed over, also by what is called."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    environment = {**os.environ, **flags, "XDG_CACHE_HOME": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-c", SPREAD], env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(told) == 5
    assert all(line.startswith("an array is spread over several devices") for line in told)


SEVERAL = """
import jax.numpy as jnp
from aiosearch.optimizer import optimize_sync

made = optimize_sync(lambda x, w: jnp.diag(x @ w), jnp.ones((8, 8)), jnp.ones((8, 8)),
                     effort="quick", kernels=False)
print(made.report.left_alone, len(made.report.found))
"""


def test_what_is_compiled_for_one_device_runs_where_there_are_several(tmp_path: Path) -> None:
    flags = "--xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "XDG_CACHE_HOME": str(tmp_path)}
    words = [sys.executable, "-c", SEVERAL]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert ended.stdout.split("\n")[-2:] == ["() 1", ""], ended.stdout + ended.stderr


SHARED = """
import jax.numpy as jnp
import numpy as np
from aiosearch.optimizer import optimize_sync

x, w = jnp.ones((8, 8)), jnp.arange(64.0).reshape(8, 8)
print("begins", flush=True)
input()
made = optimize_sync(lambda x, w: jnp.diag(x @ w), x, w, effort="quick", kernels=False)
np.testing.assert_allclose(made(x, w), jnp.diag(x @ w), rtol=1e-6)
print("right")
"""


def test_two_processes_on_one_device_are_both_right(tmp_path: Path) -> None:
    """They share the device, and the folder of answers."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", SHARED], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in both:
        printed, errors = process.communicate()
        assert (process.returncode, printed) == (0, "right\n"), errors


def test_kernels_for_a_gpu_that_nothing_described_is_like_are_not_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = SimpleNamespace(device_kind="NVIDIA L4", compute_capability="8.9")
    monkeypatch.setattr(jax, "devices", lambda platform: [gpu])
    assert described_gpu() == ""
    assert undescribed_reason().startswith("NVIDIA L4, of compute capability 8.9, is not described")
    assert gpu_units() == 0
    gpu.device_kind, gpu.compute_capability, gpu.core_count = "NVIDIA H20", "9.0", 78
    assert (described_gpu(), gpu_units()) == ("H100", 78)
    assert undescribed_reason() == ""


def test_mosaic_races_on_a_gpu_with_warpgroups_where_this_jax_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = SimpleNamespace(compute_capability="8.0")
    monkeypatch.setattr(jax, "devices", lambda platform: [gpu])
    assert not has_mosaic()
    gpu.compute_capability = "9.0"
    assert has_mosaic() is (missing_mosaic() is None)


def test_where_jax_finds_no_device_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with JAX_PLATFORMS=cuda where there is no GPU: an error of its own without a word."""

    def absent() -> list[Any]:
        raise AssertionError

    monkeypatch.setattr(jax, "devices", absent)
    with pytest.raises(OptimizeError, match="jax has no device here that it can use: Assertion"):
        platform("auto")
