"""Algebra as a search: programs that compute the same for less."""

from __future__ import annotations

from .cost import estimate
from .enumeration import EnumerationSearch
from .search import RewriteSearch, RewrittenProgram, improve, searchable

__all__ = [
    "EnumerationSearch",
    "RewriteSearch",
    "RewrittenProgram",
    "estimate",
    "improve",
    "searchable",
]
