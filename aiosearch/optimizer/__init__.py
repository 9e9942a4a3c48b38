"""From a JAX function to a verified, measured, faster one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .answers import Answer, Key, Timings
    from .decorating import OptimizedOnCall, optimized
    from .dropin import Optimized
    from .effort import Effort
    from .errors import OptimizeError
    from .optimizing import optimize, optimize_sync
    from .report import Found, Report, Tell, Tried
    from .results import Results

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
        "Answer": ".answers",
        "Key": ".answers",
        "Timings": ".answers",
        "OptimizedOnCall": ".decorating",
        "optimized": ".decorating",
        "Optimized": ".dropin",
        "Effort": ".effort",
        "OptimizeError": ".errors",
        "optimize": ".optimizing",
        "optimize_sync": ".optimizing",
        "Found": ".report",
        "Report": ".report",
        "Tell": ".report",
        "Tried": ".report",
        "Results": ".results",
    },
)
