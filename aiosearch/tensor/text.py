"""Programs as text, such as people read and write: `parse` and `write`."""

from __future__ import annotations

from .syntax.parser import parse
from .syntax.printer import write

__all__ = ["parse", "write"]
