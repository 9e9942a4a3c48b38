"""Algebra as a search: programs that compute the same for less. `improve` is the entry; it goes
back and forth between `RewriteSearch`, by rules, and `EnumerationSearch`, bottom up without rules.
"""

from __future__ import annotations

from .cost import estimate
from .enumeration import EnumerationSearch
from .search import RewriteSearch, RewrittenProgram, derivations, improve, searchable

__all__ = [
    "EnumerationSearch",
    "RewriteSearch",
    "RewrittenProgram",
    "derivations",
    "estimate",
    "improve",
    "searchable",
]
