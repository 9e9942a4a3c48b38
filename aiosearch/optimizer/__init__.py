"""From a JAX function to a verified, measured, faster one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .decorator import OptimizedOnCall, optimized
    from .effort import Effort
    from .errors import OptimizeError
    from .handback.optimized import Optimized
    from .optimization import optimize, optimize_sync
    from .outcomes.answer import Answer, Key, Timings
    from .outcomes.evidence import Tried
    from .outcomes.report import Found, Report, Tell
    from .outcomes.results import Results

__all__ = [
    "Answer",
    "Effort",
    "Found",
    "Key",
    "OptimizeError",
    "Optimized",
    "OptimizedOnCall",
    "Report",
    "Results",
    "Tell",
    "Timings",
    "Tried",
    "optimize",
    "optimize_sync",
    "optimized",
]

__getattr__ = lazily(
    __name__,
    {
        "Answer": ".outcomes.answer",
        "Key": ".outcomes.answer",
        "Timings": ".outcomes.answer",
        "OptimizedOnCall": ".decorator",
        "optimized": ".decorator",
        "Optimized": ".handback.optimized",
        "Effort": ".effort",
        "OptimizeError": ".errors",
        "optimize": ".optimization",
        "optimize_sync": ".optimization",
        "Found": ".outcomes.report",
        "Report": ".outcomes.report",
        "Tell": ".outcomes.report",
        "Tried": ".outcomes.evidence",
        "Results": ".outcomes.results",
    },
)
