"""From JAX functions to tensor programs: `capture` reads one, `JaxFunction` runs one. Only tracing
or running a function imports jax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .errors import CaptureError, RunError

__all__ = ["CaptureError", "Captured", "JaxFunction", "RunError", "capture"]

if TYPE_CHECKING:
    from .functions import Captured, capture
    from .jax_function import JaxFunction
else:
    __getattr__ = lazily(
        __name__,
        {"Captured": ".functions", "JaxFunction": ".jax_function", "capture": ".functions"},
    )
