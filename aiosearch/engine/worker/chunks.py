"""Long reports and hand-outs, split into messages that fit a frame."""

from __future__ import annotations

from collections.abc import Iterable

from ...processes.frames import MAX_FRAME
from ..explore.bundles import Bundle
from .work_sharing import Offer

ROOM = MAX_FRAME - 8 * 1024


class ReportChunk:
    """As much of a report as goes into one frame."""

    def __init__(self) -> None:
        self.kept: list[Bundle] = []
        self.given: list[Bundle] = []
        self.offered: list[Offer] = []
        self.solutions: list[bytes] = []
        self.keys = b""
        self.room = ROOM


def report_chunks(
    kept: list[Bundle],
    given: list[Bundle],
    offered: Iterable[Offer],
    solutions: list[bytes],
    keys: bytes,
) -> list[ReportChunk]:
    """Deals a report's contents out to parts that fit a frame, at least one."""
    parts = [ReportChunk()]

    def with_room(size: int) -> ReportChunk:
        if size > parts[-1].room and parts[-1].room < ROOM:
            parts.append(ReportChunk())
        parts[-1].room -= size
        return parts[-1]

    for bundle in kept:
        with_room(len(bundle.blob) + 48).kept.append(bundle)
    for bundle in given:
        with_room(len(bundle.blob) + 48).given.append(bundle)
    for number, bundle in offered:
        with_room(len(bundle.blob) + 64).offered.append((number, bundle))
    for solution in solutions:
        with_room(len(solution) + 8).solutions.append(solution)
    for start in range(0, len(keys), ROOM // 2):
        piece = keys[start : start + ROOM // 2]
        with_room(len(piece) + 8).keys += piece
    return parts


def task_batches(tasks: dict[int, Bundle]) -> Iterable[dict[int, Bundle]]:
    """Deals tasks out to messages that fit a frame."""
    batch: dict[int, Bundle] = {}
    size = 0
    for id, bundle in tasks.items():
        if batch and size + len(bundle.blob) + 64 > MAX_FRAME - 1024:
            yield batch
            batch, size = {}, 0
        batch[id] = bundle
        size += len(bundle.blob) + 64
    if batch:
        yield batch
