"""Which platform a target means, and which arrays go with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from aiosearch.optimizer.devices import device, platform
from aiosearch.optimizer.errors import OptimizeError


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


def test_where_jax_finds_no_device_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with JAX_PLATFORMS=cuda where there is no GPU: an error of its own without a word."""

    def absent() -> list[Any]:
        raise AssertionError

    monkeypatch.setattr(jax, "devices", absent)
    with pytest.raises(OptimizeError, match="jax has no device here that it can use: Assertion"):
        platform("auto")
