"""From a JAX function to a verified, measured, faster one: `optimize`, or `optimized` as a
decorator. `trace` cuts a function, `algebra` and `candidates` find what could run in its place,
`race` decides, `outcomes` remembers, and `handback` gives an `Optimized`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .candidates.cpu_kernels import kernel_sources
    from .candidates.jax_source import emit, names
    from .decorator import OptimizedOnCall, optimized
    from .device_kind import device, platform
    from .effort import Budget, Effort, budget_of
    from .errors import OptimizeError
    from .handback.exported import Exported, exported
    from .handback.optimized import Optimized
    from .optimization import Optimization, optimize, optimize_sync
    from .outcomes.answer import Answer, Key, Timings
    from .outcomes.evidence import Evidence, Tried
    from .outcomes.plot import plot
    from .outcomes.report import CALLED, WHOLE, Found, Report, Tell, WholeFunctionResult
    from .outcomes.report_page import report_page, running_page
    from .outcomes.results import FORMAT, AnswerFile, Results, default_results_path, export
    from .outcomes.roofline import ceilings_of, roofline_fraction, why_faster
    from .outcomes.unfinished_work import WorkStore
    from .progress import OptimizeProgress
    from .race.arrangements import Occurrences, occurrences
    from .trace.pieces import Body, Subject
    from .trace.splice import Spliced
    from .trace.traced import CutFunction, cut

__all__ = [
    "CALLED",
    "FORMAT",
    "WHOLE",
    "Answer",
    "AnswerFile",
    "Body",
    "Budget",
    "CutFunction",
    "Effort",
    "Evidence",
    "Exported",
    "Found",
    "Key",
    "Occurrences",
    "Optimization",
    "OptimizeError",
    "OptimizeProgress",
    "Optimized",
    "OptimizedOnCall",
    "Report",
    "Results",
    "Spliced",
    "Subject",
    "Tell",
    "Timings",
    "Tried",
    "WholeFunctionResult",
    "WorkStore",
    "budget_of",
    "ceilings_of",
    "cut",
    "default_results_path",
    "device",
    "emit",
    "export",
    "exported",
    "kernel_sources",
    "names",
    "occurrences",
    "optimize",
    "optimize_sync",
    "optimized",
    "platform",
    "plot",
    "report_page",
    "roofline_fraction",
    "running_page",
    "why_faster",
]

__getattr__ = lazily(
    __name__,
    {
        "kernel_sources": ".candidates.cpu_kernels",
        "emit": ".candidates.jax_source",
        "names": ".candidates.jax_source",
        "OptimizedOnCall": ".decorator",
        "optimized": ".decorator",
        "device": ".device_kind",
        "platform": ".device_kind",
        "Budget": ".effort",
        "Effort": ".effort",
        "budget_of": ".effort",
        "OptimizeError": ".errors",
        "Exported": ".handback.exported",
        "exported": ".handback.exported",
        "Optimized": ".handback.optimized",
        "Optimization": ".optimization",
        "optimize": ".optimization",
        "optimize_sync": ".optimization",
        "Answer": ".outcomes.answer",
        "Key": ".outcomes.answer",
        "Timings": ".outcomes.answer",
        "Evidence": ".outcomes.evidence",
        "Tried": ".outcomes.evidence",
        "plot": ".outcomes.plot",
        "CALLED": ".outcomes.report",
        "WHOLE": ".outcomes.report",
        "Found": ".outcomes.report",
        "Report": ".outcomes.report",
        "Tell": ".outcomes.report",
        "WholeFunctionResult": ".outcomes.report",
        "report_page": ".outcomes.report_page",
        "running_page": ".outcomes.report_page",
        "FORMAT": ".outcomes.results",
        "AnswerFile": ".outcomes.results",
        "Results": ".outcomes.results",
        "default_results_path": ".outcomes.results",
        "export": ".outcomes.results",
        "ceilings_of": ".outcomes.roofline",
        "roofline_fraction": ".outcomes.roofline",
        "why_faster": ".outcomes.roofline",
        "WorkStore": ".outcomes.unfinished_work",
        "OptimizeProgress": ".progress",
        "Occurrences": ".race.arrangements",
        "occurrences": ".race.arrangements",
        "Body": ".trace.pieces",
        "Subject": ".trace.pieces",
        "Spliced": ".trace.splice",
        "CutFunction": ".trace.traced",
        "cut": ".trace.traced",
    },
)
