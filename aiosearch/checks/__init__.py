"""The verification service: z3 in killable processes, behind a cache of verdicts."""

from __future__ import annotations

from aiosearch.checks.cache import default_cache_path
from aiosearch.checks.digest import digest, z3_version
from aiosearch.checks.question import Ticket
from aiosearch.checks.records import CheckRecord, VerifierStatistics
from aiosearch.checks.service import Verifier
from aiosearch.checks.upkeep import CacheStatistics, cache_stats, clear_cache
from aiosearch.checks.verdict import Reason, Status, Verdict

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
    "digest",
    "z3_version",
]
