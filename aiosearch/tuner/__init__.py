"""Schedules: spaces of a kernel's choices as programs, searched beside a device, kept in tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .errors import RequirementFailed, SpaceError, TableError, TunerError
    from .gates import Rejection, TuningGate
    from .pipeline import TuningSession, tune, tune_sync
    from .portfolios import Portfolio, tune_portfolio
    from .records import RecordTable, TuningRecord, read_seeds
    from .reports import TuningProgress, TuningReport
    from .schedules.programs import TunableProgram, tunable_program
    from .search.models import CostModel, rank_correlation
    from .search.proposals import (
        BestFirstProposer,
        EvolutionProposer,
        ExhaustiveProposer,
        Measurement,
        Proposer,
        RandomProposer,
        SearchView,
    )
    from .search.recordings import RecordedSpace, replay
    from .search.states import SearchState
    from .space.hardware import Hardware, MatrixUnit, find_hardware, hardware_names, this_hardware
    from .space.spaces import Sampler, SearchSpace
    from .space.traces import Requirement, Trace
    from .tasks import TunedFunction, TuningTask, tune_function, tune_function_sync, tune_tasks
    from .timing import TuningBudget
    from .tunables import SizeRange, Tunable, UntunedWarning, tunable

_HOMES = {
    "RequirementFailed": ".errors",
    "SpaceError": ".errors",
    "TableError": ".errors",
    "TunerError": ".errors",
    "TuningGate": ".gates",
    "Rejection": ".gates",
    "Hardware": ".space.hardware",
    "MatrixUnit": ".space.hardware",
    "find_hardware": ".space.hardware",
    "hardware_names": ".space.hardware",
    "this_hardware": ".space.hardware",
    "CostModel": ".search.models",
    "TuningTask": ".tasks",
    "tune_tasks": ".tasks",
    "TunedFunction": ".tasks",
    "tune_function": ".tasks",
    "tune_function_sync": ".tasks",
    "TunableProgram": ".schedules.programs",
    "tunable_program": ".schedules.programs",
    "Portfolio": ".portfolios",
    "tune_portfolio": ".portfolios",
    "RecordedSpace": ".search.recordings",
    "replay": ".search.recordings",
    "rank_correlation": ".search.models",
    "TuningSession": ".pipeline",
    "TuningBudget": ".timing",
    "TuningProgress": ".reports",
    "tune": ".pipeline",
    "tune_sync": ".pipeline",
    "BestFirstProposer": ".search.proposals",
    "EvolutionProposer": ".search.proposals",
    "ExhaustiveProposer": ".search.proposals",
    "Measurement": ".search.proposals",
    "Proposer": ".search.proposals",
    "RandomProposer": ".search.proposals",
    "SearchView": ".search.proposals",
    "RecordTable": ".records",
    "TuningRecord": ".records",
    "read_seeds": ".records",
    "TuningReport": ".reports",
    "Sampler": ".space.spaces",
    "SearchSpace": ".space.spaces",
    "SearchState": ".search.states",
    "Requirement": ".space.traces",
    "Trace": ".space.traces",
    "Tunable": ".tunables",
    "SizeRange": ".tunables",
    "UntunedWarning": ".tunables",
    "tunable": ".tunables",
}


__all__ = [
    "BestFirstProposer",
    "CostModel",
    "EvolutionProposer",
    "ExhaustiveProposer",
    "Hardware",
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
    "SizeRange",
    "SpaceError",
    "TableError",
    "Trace",
    "Tunable",
    "TunableProgram",
    "TunedFunction",
    "TunerError",
    "TuningBudget",
    "TuningGate",
    "TuningProgress",
    "TuningRecord",
    "TuningReport",
    "TuningSession",
    "TuningTask",
    "UntunedWarning",
    "find_hardware",
    "hardware_names",
    "rank_correlation",
    "read_seeds",
    "replay",
    "this_hardware",
    "tunable",
    "tunable_program",
    "tune",
    "tune_function",
    "tune_function_sync",
    "tune_portfolio",
    "tune_sync",
    "tune_tasks",
]

__getattr__ = lazily(__name__, _HOMES)
