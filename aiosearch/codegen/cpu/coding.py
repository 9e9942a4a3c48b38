"""`encoded`, by the path that stands in answers and in files that `--emit` wrote.

Sources of kernels import it from here since version 0.1.0, so this module neither moves nor goes.
"""

from __future__ import annotations

from .panel_encoder import encode_panels as encoded

__all__ = ["encoded"]
