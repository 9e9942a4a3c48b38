"""Searches on a Ray cluster: one host actor for each node, and bytes in batches between them."""

from __future__ import annotations

from .listening import RayListener

__all__ = ["RayListener"]
