"""Programs as text, such as people read and write."""

from __future__ import annotations

from .parsing import parse
from .printing import write

__all__ = ["parse", "write"]
