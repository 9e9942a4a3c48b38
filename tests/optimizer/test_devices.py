"""Which platform a target means, and which arrays go with it."""

from __future__ import annotations

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


def test_on_its_own_it_is_where_the_arrays_lie() -> None:
    assert platform("auto", [on("gpu"), None]) == "cuda"
    assert platform("auto", [on("cpu")]) == "cpu"
    assert platform("auto") == ("cuda" if jax.default_backend() == "gpu" else "cpu")
    with pytest.raises(OptimizeError, match="an array lies on tpu"):
        platform("auto", [on("tpu")])


def test_a_platforms_device_is_one_of_it() -> None:
    assert device("cpu").platform == "cpu"
