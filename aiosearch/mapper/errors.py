"""What the mapper raises: each message says what was wrong, where, and what to do."""

from __future__ import annotations

from ..errors import AiosearchError


class ClusterError(AiosearchError):
    """A description of a cluster lacks something, or says something impossible."""


class PatternError(AiosearchError):
    """A program of patterns contradicts itself, or uses what cannot be mapped."""


class MappingError(AiosearchError):
    """A mapping does not fit its program or its cluster."""


class PlanError(AiosearchError):
    """A plan cannot be made, read or run: its function, shapes or devices do not fit."""
