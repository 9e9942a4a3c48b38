"""The superoptimizer: every program of fused kernels in a declared space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from ..devices import Device, DeviceError, device, device_names, this_machine
    from .advice import limits_to_raise
    from .algebra.program_reader import UnsearchableError
    from .compose.partition import Plan, partition, reassembled
    from .cost.prediction import Prediction, predict
    from .cost.sizes import Filling, fill
    from .enumeration.branch_and_bound import Fastest, Priced
    from .enumeration.problem import Found, Fusion
    from .space import Space
    from .superoptimization import Answer, Cut, Findings, superoptimize
    from .z3_referee.z3_referee import Refereed, referee

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
        "Fastest": ".enumeration.branch_and_bound",
        "Priced": ".enumeration.branch_and_bound",
        "Filling": ".cost.sizes",
        "fill": ".cost.sizes",
        "Answer": ".superoptimization",
        "Cut": ".superoptimization",
        "Findings": ".superoptimization",
        "superoptimize": ".superoptimization",
        "UnsearchableError": ".algebra.program_reader",
        "Plan": ".compose.partition",
        "partition": ".compose.partition",
        "reassembled": ".compose.partition",
        "Prediction": ".cost.prediction",
        "predict": ".cost.prediction",
        "Found": ".enumeration.problem",
        "Fusion": ".enumeration.problem",
        "Refereed": ".z3_referee.z3_referee",
        "referee": ".z3_referee.z3_referee",
        "Space": ".space",
    },
)
