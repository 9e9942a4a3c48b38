"""An asyncio search engine: parallel, cancellable, resumable tree search that you await."""

from __future__ import annotations

from .errors import AiosearchError, JournalError, ProblemError, StrategyError, WorkerError
from .limits import Limits
from .orders import BestFirst, BranchAndBound, BreadthFirst, DepthFirst, Order
from .pool import Pool
from .problem import Obligation, Problem
from .result import Result, SearchStatus
from .search import Search, solve
from .statistics import Statistics, WorkerStatistics

__version__ = "0.1.0"

__all__ = [
    "AiosearchError",
    "BestFirst",
    "BranchAndBound",
    "BreadthFirst",
    "DepthFirst",
    "JournalError",
    "Limits",
    "Obligation",
    "Order",
    "Pool",
    "Problem",
    "ProblemError",
    "Result",
    "Search",
    "SearchStatus",
    "Statistics",
    "StrategyError",
    "WorkerError",
    "WorkerStatistics",
    "__version__",
    "solve",
]
