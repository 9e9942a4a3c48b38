"""What tests of CUDA kernels share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest


class CudaModule(pytest.Module):
    """A file of tests that cannot be imported without libclang, and is skipped there.

    A skip at the top of this file would end pytest where it is asked for this folder: then this is
    read before anything is collected.
    """

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        pytest.importorskip("clang.cindex", reason="the extra `cuda` brings libclang")
        return super().collect()


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    module: pytest.Module = CudaModule.from_parent(parent, path=module_path)
    return module
