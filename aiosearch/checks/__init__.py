"""The verification service: z3 in killable processes, behind a cache of verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .cache import default_cache_path
    from .maintenance import CacheStatistics, cache_stats, clear_cache
    from .questions import Ticket, z3_version
    from .service import Verifier
    from .verdict import CheckRecord, Reason, Status, Verdict, VerifierStatistics

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
        "z3_version": ".questions",
        "Ticket": ".questions",
        "CheckRecord": ".verdict",
        "VerifierStatistics": ".verdict",
        "Verifier": ".service",
        "CacheStatistics": ".maintenance",
        "cache_stats": ".maintenance",
        "clear_cache": ".maintenance",
        "Reason": ".verdict",
        "Status": ".verdict",
        "Verdict": ".verdict",
    },
)
