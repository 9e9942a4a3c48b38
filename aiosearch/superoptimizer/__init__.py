"""The superoptimizer: every program of fused kernels in a declared space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from ..devices import Device, DeviceError, device, device_names, this_machine
    from ..lab.mirage.z3_referee import Refereed, referee
    from .advice import limits_to_raise
    from .algebra.program_reader import NormalFormProgram, UnsearchableError, read, uncast
    from .compose.composer import Composer
    from .compose.partition import Plan, partition, reassembled
    from .cost.prediction import Prediction, predict
    from .cost.sizes import Filling, fill
    from .derive.derivations import Derivation, DerivationGraph, ValueClass
    from .enumeration.branch_and_bound import Fastest, Priced, ProgramDraft
    from .enumeration.problem import Found, Fusion
    from .progress import (
        PhaseClock,
        ShouldContinue,
        StopRecorder,
        always_continue,
        cpu_seconds,
    )
    from .space import RANGES, Space
    from .superoptimization import Answer, Cut, Findings, superoptimize

__all__ = [
    "RANGES",
    "Answer",
    "Composer",
    "Cut",
    "Derivation",
    "DerivationGraph",
    "Device",
    "DeviceError",
    "Fastest",
    "Filling",
    "Findings",
    "Found",
    "Fusion",
    "NormalFormProgram",
    "PhaseClock",
    "Plan",
    "Prediction",
    "Priced",
    "ProgramDraft",
    "Refereed",
    "ShouldContinue",
    "Space",
    "StopRecorder",
    "UnsearchableError",
    "ValueClass",
    "always_continue",
    "cpu_seconds",
    "device",
    "device_names",
    "fill",
    "limits_to_raise",
    "partition",
    "predict",
    "read",
    "reassembled",
    "referee",
    "superoptimize",
    "this_machine",
    "uncast",
]

__getattr__ = lazily(
    __name__,
    {
        "Device": "..devices",
        "DeviceError": "..devices",
        "device": "..devices",
        "device_names": "..devices",
        "this_machine": "..devices",
        "Refereed": "..lab.mirage.z3_referee",
        "referee": "..lab.mirage.z3_referee",
        "limits_to_raise": ".advice",
        "NormalFormProgram": ".algebra.program_reader",
        "UnsearchableError": ".algebra.program_reader",
        "read": ".algebra.program_reader",
        "uncast": ".algebra.program_reader",
        "Composer": ".compose.composer",
        "Plan": ".compose.partition",
        "partition": ".compose.partition",
        "reassembled": ".compose.partition",
        "Prediction": ".cost.prediction",
        "predict": ".cost.prediction",
        "Filling": ".cost.sizes",
        "fill": ".cost.sizes",
        "Derivation": ".derive.derivations",
        "DerivationGraph": ".derive.derivations",
        "ValueClass": ".derive.derivations",
        "Fastest": ".enumeration.branch_and_bound",
        "Priced": ".enumeration.branch_and_bound",
        "ProgramDraft": ".enumeration.branch_and_bound",
        "Found": ".enumeration.problem",
        "Fusion": ".enumeration.problem",
        "PhaseClock": ".progress",
        "ShouldContinue": ".progress",
        "StopRecorder": ".progress",
        "always_continue": ".progress",
        "cpu_seconds": ".progress",
        "RANGES": ".space",
        "Space": ".space",
        "Answer": ".superoptimization",
        "Cut": ".superoptimization",
        "Findings": ".superoptimization",
        "superoptimize": ".superoptimization",
    },
)
