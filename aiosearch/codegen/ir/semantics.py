"""The NumPy function of each scalar operation, which defines what the operation means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor.operators.pointwise import (
    COS,
    DIGAMMA,
    ERF,
    ERFC,
    EXPM1,
    FLOOR,
    LGAMMA,
    LOG1P,
    POW,
    REM,
    ROUND,
    SIN,
    TANH,
)
from . import Operation


def _truth(compare: Callable[..., Any]) -> Callable[..., Any]:
    """A comparison that gives 1.0 and 0.0, as truth values of expressions are."""
    return lambda x, y: np.asarray(compare(x, y), dtype=np.float64)


NUMPY_OPERATIONS: dict[Operation, Callable[..., Any]] = {
    Operation.ADD: np.add,
    Operation.SUBTRACT: np.subtract,
    Operation.MULTIPLY: np.multiply,
    Operation.DIVIDE: np.divide,
    Operation.MAXIMUM: np.maximum,
    Operation.MINIMUM: np.minimum,
    Operation.NEGATIVE: np.negative,
    Operation.ABSOLUTE: np.abs,
    Operation.SQRT: np.sqrt,
    Operation.EXP: np.exp,
    Operation.LOG: np.log,
    Operation.EXPM1: EXPM1.floats,
    Operation.LOG1P: LOG1P.floats,
    Operation.TANH: TANH.floats,
    Operation.ERF: ERF.floats,
    Operation.ERFC: ERFC.floats,
    Operation.SIN: SIN.floats,
    Operation.COS: COS.floats,
    Operation.FLOOR: FLOOR.floats,
    Operation.ROUND: ROUND.floats,
    Operation.POW: POW.floats,
    Operation.LGAMMA: LGAMMA.floats,
    Operation.DIGAMMA: DIGAMMA.floats,
    Operation.REM: REM.floats,
    Operation.LESS: _truth(np.less),
    Operation.LESS_EQUAL: _truth(np.less_equal),
    Operation.EQUAL: _truth(np.equal),
    Operation.NOT_EQUAL: _truth(np.not_equal),
    Operation.SELECT: lambda where, x, y: np.where(where != 0, x, y),
}
"""By `Operation`, a function of arrays of float64."""
