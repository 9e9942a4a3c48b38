"""The verification service: z3 in killable processes, behind a cache of verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .cache import default_cache_path
    from .digest import z3_version
    from .question import Ticket
    from .records import CheckRecord, VerifierStatistics
    from .service import Verifier
    from .upkeep import CacheStatistics, cache_stats, clear_cache
    from .verdict import Reason, Status, Verdict

__all__ = [
    "CacheStatistics",
    "CheckRecord",
    "Reason",
    "Status",
    "Ticket",
    "Verdict",
    "Verifier",
    "VerifierStatistics",
    "cache_stats",
    "clear_cache",
    "default_cache_path",
    "z3_version",
]

__getattr__ = lazily(
    __name__,
    {
        "default_cache_path": ".cache",
        "z3_version": ".digest",
        "Ticket": ".question",
        "CheckRecord": ".records",
        "VerifierStatistics": ".records",
        "Verifier": ".service",
        "CacheStatistics": ".upkeep",
        "cache_stats": ".upkeep",
        "clear_cache": ".upkeep",
        "Reason": ".verdict",
        "Status": ".verdict",
        "Verdict": ".verdict",
    },
)
