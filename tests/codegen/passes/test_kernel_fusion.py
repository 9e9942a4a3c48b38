"""Kernels that run one after the other, as one."""

from __future__ import annotations

import numpy as np
import pytest

from aiosearch.codegen.ir.interpreter import interpret
from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.tensor import DType
from aiosearch.tensor.programs import builtin


@pytest.mark.parametrize("name", ["qk_norm", "qk_norm_v", "attention"])
def test_indices_of_one_size_stay_apart(name: str) -> None:
    """Where features, keys and values are equally many, only names tell their indices apart."""
    sizes = {"head": 2, "row": 32, "feature": 8, "key": 8, "value": 8}
    module = lower(builtin(name, DType.F32, **sizes))
    joined = fuse_kernels(module)
    assert len(joined.kernels) < len(module.kernels)
    given = [np.random.default_rng(0).normal(size=one.shape) for one in module.inputs]
    for found, right in zip(interpret(joined, given), interpret(module, given), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12)
