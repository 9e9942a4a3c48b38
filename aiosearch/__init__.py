"""An asyncio search engine: parallel, cancellable, resumable tree search that you await."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import lazily

if TYPE_CHECKING:
    from .checks.service import Verifier
    from .checks.verdict import Status, Verdict
    from .display.search_report import SearchReport
    from .display.status_line import ProgressLine
    from .equivalence import verify
    from .errors import AiosearchError, JournalError, ProblemError, StrategyError, WorkerError
    from .limits import Limits
    from .optimizer import Optimized, optimize, optimize_sync, optimized
    from .orders import BestFirst, BranchAndBound, BreadthFirst, DepthFirst, Order
    from .pool import Pool
    from .problem import Obligation, Problem
    from .requests import RateLimit, retry
    from .result import Result, SearchStatus
    from .search import Search, solve
    from .statistics import Statistics, WorkerStatistics
    from .trace import ChromeTrace
    from .tuner.pipeline import tune, tune_sync
    from .tuner.tunables import tunable

__version__ = "0.1.0"

__all__ = [
    "AiosearchError",
    "BestFirst",
    "BranchAndBound",
    "BreadthFirst",
    "ChromeTrace",
    "DepthFirst",
    "JournalError",
    "Limits",
    "Obligation",
    "Optimized",
    "Order",
    "Pool",
    "Problem",
    "ProblemError",
    "ProgressLine",
    "RateLimit",
    "Result",
    "Search",
    "SearchReport",
    "SearchStatus",
    "Statistics",
    "Status",
    "StrategyError",
    "Verdict",
    "Verifier",
    "WorkerError",
    "WorkerStatistics",
    "__version__",
    "optimize",
    "optimize_sync",
    "optimized",
    "retry",
    "solve",
    "tunable",
    "tune",
    "tune_sync",
    "verify",
]

__getattr__ = lazily(
    __name__,
    {
        "Verifier": ".checks.service",
        "Status": ".checks.verdict",
        "Verdict": ".checks.verdict",
        "verify": ".equivalence",
        "SearchReport": ".display.search_report",
        "ProgressLine": ".display.status_line",
        "AiosearchError": ".errors",
        "JournalError": ".errors",
        "ProblemError": ".errors",
        "StrategyError": ".errors",
        "WorkerError": ".errors",
        "Limits": ".limits",
        "optimized": ".optimizer.decorator",
        "Optimized": ".optimizer.handback.optimized",
        "optimize": ".optimizer.optimization",
        "optimize_sync": ".optimizer.optimization",
        "BestFirst": ".orders",
        "BranchAndBound": ".orders",
        "BreadthFirst": ".orders",
        "DepthFirst": ".orders",
        "Order": ".orders",
        "Pool": ".pool",
        "Obligation": ".problem",
        "Problem": ".problem",
        "RateLimit": ".requests",
        "retry": ".requests",
        "Result": ".result",
        "SearchStatus": ".result",
        "Search": ".search",
        "solve": ".search",
        "Statistics": ".statistics",
        "WorkerStatistics": ".statistics",
        "ChromeTrace": ".trace",
        "tune": ".tuner.pipeline",
        "tune_sync": ".tuner.pipeline",
        "tunable": ".tuner.tunables",
    },
)
