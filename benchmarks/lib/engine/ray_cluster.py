"""A Ray cluster of one-processor nodes that are all on this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec


def has_ray() -> bool:
    return find_spec("ray") is not None and find_spec("aiosearch_ray") is not None


@contextmanager
def ray_nodes(count: int) -> Iterator[None]:
    """So many nodes, to which this process is connected; what Ray writes goes with them."""
    folder = tempfile.mkdtemp(prefix="aiosearch-ray-")  # a short name, as sockets need
    os.environ.update(
        RAY_TMPDIR=folder, RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0"
    )
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        for _ in range(count - 1):
            cluster.add_node(num_cpus=1)
        ray.init(cluster.address, log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
