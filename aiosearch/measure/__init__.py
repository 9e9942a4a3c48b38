"""Executors: candidates are compiled, run and timed in processes that may die of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .candidates import ArrayType, Candidate, Cause, Compiled, Failure, Stage
    from .ceilings import (
        Ceilings,
        ceilings_path,
        machine_id,
        measure_ceilings,
        store_ceilings,
        stored_ceilings,
    )
    from .errors import ExecutorError
    from .executor import Executor, Inputs
    from .host.jax_executor import Allowance, JaxExecutor
    from .mock_executor import Act, MockExecutor
    from .race import Clock, Lap, Race, Samples, Way
    from .random_inputs import Draw
    from .ratios import LEAST_GAIN, Ratio

_HOMES = {
    "ArrayType": ".candidates",
    "Candidate": ".candidates",
    "Cause": ".candidates",
    "Compiled": ".candidates",
    "Failure": ".candidates",
    "Stage": ".candidates",
    "Ceilings": ".ceilings",
    "ceilings_path": ".ceilings",
    "machine_id": ".ceilings",
    "measure_ceilings": ".ceilings",
    "store_ceilings": ".ceilings",
    "stored_ceilings": ".ceilings",
    "Draw": ".random_inputs",
    "ExecutorError": ".errors",
    "Executor": ".executor",
    "Inputs": ".executor",
    "Allowance": ".host.jax_executor",
    "JaxExecutor": ".host.jax_executor",
    "Act": ".mock_executor",
    "MockExecutor": ".mock_executor",
    "Clock": ".race",
    "Lap": ".race",
    "LEAST_GAIN": ".ratios",
    "Race": ".race",
    "Samples": ".race",
    "Way": ".race",
    "Ratio": ".ratios",
}

__all__ = [
    "LEAST_GAIN",
    "Act",
    "Allowance",
    "ArrayType",
    "Candidate",
    "Cause",
    "Ceilings",
    "Clock",
    "Compiled",
    "Draw",
    "Executor",
    "ExecutorError",
    "Failure",
    "Inputs",
    "JaxExecutor",
    "Lap",
    "MockExecutor",
    "Race",
    "Ratio",
    "Samples",
    "Stage",
    "Way",
    "ceilings_path",
    "machine_id",
    "measure_ceilings",
    "store_ceilings",
    "stored_ceilings",
]

__getattr__ = lazily(__name__, _HOMES)
