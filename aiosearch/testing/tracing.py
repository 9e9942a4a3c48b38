"""What a trace says of a message: enough to tell two runs apart, short enough to read."""

from __future__ import annotations

from typing import TypeAlias

from ..engine.wire import Report, ToHost, ToWorker, Work

Trace: TypeAlias = tuple[tuple[float, int, str], ...]
"""Seconds, worker, what happened."""


def told(message: ToHost | ToWorker) -> str:
    """Describes a message in a few words."""
    match message:
        case Work(bundles=bundles):
            return f"work {sum(bundle.size for bundle in bundles)}"
        case Report(counts=counts, given=given, idle=idle):
            gave = sum(bundle.size for bundle in given)
            return f"report {counts.nodes} gives {gave}{' idle' * idle}"
        case _:
            return type(message).__name__.lower()
