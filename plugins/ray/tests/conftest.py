"""Both event loops, and a Ray cluster of two machines that are one."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    if item.path.name in ("test_link.py", "test_listening.py"):
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray, which keeps what it writes in a folder that goes with the tests."""
    module = pytest.importorskip("ray", reason="Ray is not installed: pip install aiosearch-ray")
    # Not pytest's own folder: the names of Ray's sockets would be too long there
    folder = tempfile.mkdtemp(prefix="aiosearch-ray-")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", folder)
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        Path(folder, "ray").mkdir()
        yield module
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(ray: Any) -> Iterator[Any]:
    """Two nodes of one processor each, to which this process is connected."""
    from ray.cluster_utils import Cluster

    made: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        made.add_node(num_cpus=1)
        ray.init(made.address, log_to_driver=False)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
