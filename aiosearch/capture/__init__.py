"""From JAX functions to tensor programs. Only tracing a function imports jax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .errors import CaptureError

__all__ = ["CaptureError", "Captured", "capture"]

if TYPE_CHECKING:
    from .functions import Captured, capture
else:
    __getattr__ = lazily(__name__, {"Captured": ".functions", "capture": ".functions"})
