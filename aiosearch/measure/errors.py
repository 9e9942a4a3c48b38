"""What the executors raise."""

from __future__ import annotations

from ..errors import AiosearchError


class ExecutorError(AiosearchError):
    """Nothing can be compiled or timed here: the device is absent, or its process cannot start."""
