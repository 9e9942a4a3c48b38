"""The superoptimizer: every program of fused kernels in a declared space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from ..devices import Device, DeviceError, device, device_names, this_machine
    from .advice import limits_to_raise
    from .fastest import Fastest, Priced
    from .filling import Filling, fill
    from .findings import Answer, Cut, Findings, superoptimize
    from .formal import UnsearchableError
    from .partition import Plan, partition, reassembled
    from .predicting import Prediction, predict
    from .problem import Found, Fusion
    from .refereeing import Refereed, referee
    from .space import Space

__all__ = [
    "Answer",
    "Cut",
    "Device",
    "DeviceError",
    "Fastest",
    "Filling",
    "Findings",
    "Found",
    "Fusion",
    "Plan",
    "Prediction",
    "Priced",
    "Refereed",
    "Space",
    "UnsearchableError",
    "device",
    "device_names",
    "fill",
    "limits_to_raise",
    "partition",
    "predict",
    "reassembled",
    "referee",
    "superoptimize",
    "this_machine",
]

__getattr__ = lazily(
    __name__,
    {
        "limits_to_raise": ".advice",
        "Device": "..devices",
        "DeviceError": "..devices",
        "device": "..devices",
        "device_names": "..devices",
        "this_machine": "..devices",
        "Fastest": ".fastest",
        "Priced": ".fastest",
        "Filling": ".filling",
        "fill": ".filling",
        "Answer": ".findings",
        "Cut": ".findings",
        "Findings": ".findings",
        "superoptimize": ".findings",
        "UnsearchableError": ".formal",
        "Plan": ".partition",
        "partition": ".partition",
        "reassembled": ".partition",
        "Prediction": ".predicting",
        "predict": ".predicting",
        "Found": ".problem",
        "Fusion": ".problem",
        "Refereed": ".refereeing",
        "referee": ".refereeing",
        "Space": ".space",
    },
)
