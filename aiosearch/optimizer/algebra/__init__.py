"""Algebra as a search: programs that compute the same for less."""

from __future__ import annotations

from .estimate import estimate
from .improving import improve, searchable
from .rewriting import Rewriting, Step

__all__ = ["Rewriting", "Step", "estimate", "improve", "searchable"]
