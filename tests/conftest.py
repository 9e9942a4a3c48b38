"""What holds for every test: the caches of the person who runs it, signals, event loops."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
import uvloop
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pytest_configure(config: pytest.Config) -> None:
    """What runs in the background ignores Ctrl-C, and so would every process that tests start.

    No test is timed: examples may take as long as a busy machine makes them.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile(
        "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("any machine")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads wait by spinning
    gc.set_threshold(20_000, 20, 50)  # as often as usual takes a tenth of all time
    if sys.dont_write_bytecode and (cache := getattr(config, "cache", None)):
        _compile_imports_once(str(cache.mkdir("bytecode")))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Asks jax for a GPU where a test needs one, and nowhere else: importing jax takes a second."""
    if item.get_closest_marker("cuda") is not None:
        import jax

        if all(device.platform != "gpu" for device in jax.devices()):
            pytest.skip("jax has no GPU here")


def _compile_imports_once(folder: str) -> None:
    """Where no bytecode is to stand beside the sources, it stands in a cache.

    A hundred processes import jax here, which takes three times as long from its sources.
    """
    sys.pycache_prefix, sys.dont_write_bytecode = folder, False
    os.environ["PYTHONPYCACHEPREFIX"] = folder
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Names of folders: few tests need theirs, and to make it is a third of a short one's time."""
    folder = tmp_path_factory.mktemp("caches", numbered=False)
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _own_cache(_caches: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(next(_caches)))


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    """What users see is tried on both event loops; the rest does not depend on them."""
    if item.path.name in ("test_search.py", "test_pool.py"):
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}
