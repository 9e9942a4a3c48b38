"""Algebra as a search: programs that compute the same for less."""

from __future__ import annotations

from .enumerating import Enumerating
from .estimate import estimate
from .improving import improve, searchable
from .rewriting import Rewriting, Step

__all__ = ["Enumerating", "Rewriting", "Step", "estimate", "improve", "searchable"]
