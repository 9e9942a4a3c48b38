"""What XLA times on a GPU while it compiles: how it multiplies matrices, and more.

Two processes that tune at once, or one that tunes while another is timed, spoil each other's
figures, and `jax.jit` as a baseline would be slower than users have it. So what is tuned has the
device for itself; what XLA found is kept in a folder for the other processes, and the time it
takes has an allowance of its own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 240.0
"""What tuning may take, beside compiling: some dozens of products, each in some dozens of ways."""


def is_tuned(source: str) -> bool:
    """Whether XLA tries several ways of running it: kernels of Pallas are compiled as written."""
    return "pallas_call(" not in source


@contextmanager
def shared_folder() -> Iterator[str]:
    """Where processes find what others have tuned; a folder of the same life as an executor."""
    with tempfile.TemporaryDirectory(prefix="aiosearch-tuned-", ignore_cleanup_errors=True) as path:
        yield path


def share(folder: str) -> None:
    """Has XLA look in the folder before it tunes; for this process, before anything is compiled."""
    flags = os.environ.get("XLA_FLAGS", "")
    if "--xla_gpu_per_fusion_autotune_cache_dir" not in flags:
        flag = f"--xla_gpu_per_fusion_autotune_cache_dir={folder}"
        os.environ["XLA_FLAGS"] = f"{flags} {flag}".strip()
