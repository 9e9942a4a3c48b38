"""Schedules: spaces of a kernel's choices as programs, searched beside a device, kept in tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .errors import RequirementFailed, SpaceError, TableError, TunerError
    from .gates import Gate, Rejection
    from .hardware import Hardware, MatrixUnit, find_hardware, hardware_names, this_hardware
    from .models import CostModel, rank_correlation
    from .pipeline import KernelTuning, TuningBudget, TuningProgress, tune, tune_sync
    from .portfolios import Portfolio, tune_portfolio
    from .proposals import (
        BestFirstProposer,
        EvolutionProposer,
        ExhaustiveProposer,
        Measurement,
        Proposer,
        RandomProposer,
        SearchView,
    )
    from .recordings import RecordedSpace, replay
    from .records import RecordTable, TuningRecord
    from .reports import TuningReport
    from .spaces import Sampler, SearchSpace
    from .states import SearchState
    from .tasks import TuningTask, tune_tasks
    from .traces import Requirement, Trace
    from .tunables import Tunable, UntunedWarning, tunable

_HOMES = {
    "RequirementFailed": ".errors",
    "SpaceError": ".errors",
    "TableError": ".errors",
    "TunerError": ".errors",
    "Gate": ".gates",
    "Rejection": ".gates",
    "Hardware": ".hardware",
    "MatrixUnit": ".hardware",
    "find_hardware": ".hardware",
    "hardware_names": ".hardware",
    "this_hardware": ".hardware",
    "CostModel": ".models",
    "TuningTask": ".tasks",
    "tune_tasks": ".tasks",
    "Portfolio": ".portfolios",
    "tune_portfolio": ".portfolios",
    "RecordedSpace": ".recordings",
    "replay": ".recordings",
    "rank_correlation": ".models",
    "KernelTuning": ".pipeline",
    "TuningBudget": ".pipeline",
    "TuningProgress": ".pipeline",
    "tune": ".pipeline",
    "tune_sync": ".pipeline",
    "BestFirstProposer": ".proposals",
    "EvolutionProposer": ".proposals",
    "ExhaustiveProposer": ".proposals",
    "Measurement": ".proposals",
    "Proposer": ".proposals",
    "RandomProposer": ".proposals",
    "SearchView": ".proposals",
    "RecordTable": ".records",
    "TuningRecord": ".records",
    "TuningReport": ".reports",
    "Sampler": ".spaces",
    "SearchSpace": ".spaces",
    "SearchState": ".states",
    "Requirement": ".traces",
    "Trace": ".traces",
    "Tunable": ".tunables",
    "UntunedWarning": ".tunables",
    "tunable": ".tunables",
}


__all__ = [
    "BestFirstProposer",
    "CostModel",
    "EvolutionProposer",
    "ExhaustiveProposer",
    "Gate",
    "Hardware",
    "KernelTuning",
    "MatrixUnit",
    "Measurement",
    "Portfolio",
    "Proposer",
    "RandomProposer",
    "RecordTable",
    "RecordedSpace",
    "Rejection",
    "Requirement",
    "RequirementFailed",
    "Sampler",
    "SearchSpace",
    "SearchState",
    "SearchView",
    "SpaceError",
    "TableError",
    "Trace",
    "Tunable",
    "TunerError",
    "TuningBudget",
    "TuningProgress",
    "TuningRecord",
    "TuningReport",
    "TuningTask",
    "UntunedWarning",
    "find_hardware",
    "hardware_names",
    "rank_correlation",
    "replay",
    "this_hardware",
    "tunable",
    "tune",
    "tune_portfolio",
    "tune_sync",
    "tune_tasks",
]

__getattr__ = lazily(__name__, _HOMES)
