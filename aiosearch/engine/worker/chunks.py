"""Long reports and hand-outs, split into messages that fit a frame.

`report_chunks` splits what a session reports, `task_batches` what the host hands out. For example,
three bundles of 40 KB that are kept and a solution of 20 bytes become three chunks: a frame has
room for one such bundle.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...processes.frames import MAX_FRAME
from ..explore.bundles import Bundle
from .work_sharing import Offer

# 8 KB for the counts, the envelope and the lists' own bytes
ROOM = MAX_FRAME - 8 * 1024


class ReportChunk:
    """What of a report goes into one frame; `room` is the bytes that are left of `ROOM`."""

    def __init__(self) -> None:
        self.kept: list[Bundle] = []
        self.given: list[Bundle] = []
        self.offered: list[Offer] = []
        self.solutions: list[bytes] = []
        self.keys = b""
        self.room = ROOM


def report_chunks(
    retained: list[Bundle],
    published: list[Bundle],
    offered: Iterable[Offer],
    solutions: list[bytes],
    keys: bytes,
) -> list[ReportChunk]:
    """Deals a report's contents out to chunks that fit a frame, at least one."""
    parts = [ReportChunk()]

    def with_room(size: int) -> ReportChunk:
        # An empty chunk takes anything: what is larger than a frame cannot be split further
        if size > parts[-1].room and parts[-1].room < ROOM:
            parts.append(ReportChunk())
        parts[-1].room -= size
        return parts[-1]

    for bundle in retained:
        # 48 and 64: a bundle's other fields as msgpack, rounded up
        with_room(len(bundle.blob) + 48).kept.append(bundle)
    for bundle in published:
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
    """Deals tasks out to messages that fit a frame; what is larger than a frame goes alone."""
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
