"""Open subtrees on their way between processes: siblings in groups, groups in bundles."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from ...errors import ProblemError
from .paths import shared_prefix, step, steps

NodeT = TypeVar("NodeT")

BUNDLE_BYTES = 48 * 1024
"""A bundle is closed when it reaches this size, so that frames stay below 64 KB."""
GROUP_NODES = 256


class NodeStage(enum.IntEnum):
    """How far a node has come that is not explored yet."""

    FRESH = 0
    CLAIMED = 1
    """Its key is claimed; asking the table again would make it its own duplicate."""
    DECIDED = 2
    """Its obligation was answered `unknown` and put off: explore it without asking again."""


class Group(Struct, Generic[NodeT], frozen=True, array_like=True):
    """Consecutive siblings. The parent's path is front-coded against the group before it."""

    shared: int
    suffix: bytes
    depth: int
    index: int
    stage: int
    weight: float
    nodes: list[NodeT]
    scores: list[float]
    scored_by: int
    """Which function scored them; another order, after a resume, has to score them anew."""


class Siblings(Struct, Generic[NodeT]):
    """A group as explorers use it. The parent's path is the first `length` bytes of `path`, which
    all groups along one branch share: in a deep tree, copies of it would take all the time."""

    path: bytes
    length: int
    depth: int
    index: int
    nodes: list[NodeT]
    scores: list[float] = []
    stage: int = NodeStage.FRESH
    weight: float = 1.0
    """Each node's share of the tree, if every node's children shared its own alike."""

    @property
    def parent(self) -> bytes:
        return self.path[: self.length]

    def path_of(self, offset: int) -> bytes:
        """The path of one of its nodes."""
        return self.parent + step(self.index + offset) if self.depth else b""


class Bundle(Struct, frozen=True, array_like=True, gc=False):
    """Some open subtrees, packed. The host keeps and moves them but never looks inside."""

    blob: bytes
    size: int
    """How many subtrees."""
    depth: int
    """The depth of the shallowest."""
    priority: float
    """Lower goes first."""
    rank: int = 0
    """Ranks go one after the other: 1 holds what `on_unknown="defer"` puts off."""
    weight: float = 1.0
    """The share of the tree in it, as far as one can tell: what a progress bar shows."""


ROOT = Bundle(b"", 1, 0, 0.0)
"""Stands for the problem's root, which only a worker computes."""


class Codec(Generic[NodeT]):
    """Packs and unpacks the nodes of one problem."""

    def __init__(self, problem: str, node_type: Any) -> None:
        self._problem = problem
        self.scored_by = 0
        """What the scores mean that this process packs, and takes from others as they are."""
        self._encode = msgspec.msgpack.Encoder().encode
        self.decode_node = msgspec.msgpack.Decoder(node_type).decode
        group: Any = Group
        self._decode = msgspec.msgpack.Decoder(list[group[node_type]]).decode

    def encode_node(self, node: NodeT) -> bytes:
        return self._encode(node)

    def pack(
        self, siblings: Iterable[Siblings[NodeT]], by_score: bool, rank: int = 0
    ) -> list[Bundle]:
        """Packs groups in the order given, as many bundles as their size asks for."""
        bundles: list[Bundle] = []
        box = _Box(rank)
        before: Siblings[NodeT] | None = None
        for group in _in_pieces(siblings):
            piece = self._encode_group(group, _shared(before, group))
            if box.pieces and box.bytes + len(piece) > BUNDLE_BYTES:
                bundles.append(box.closed())
                box = _Box(rank)
                piece = self._encode_group(group, 0)
            box.add(piece, group, by_score)
            before = group
        if box.pieces:
            bundles.append(box.closed())
        return bundles

    def unpack(self, blob: bytes) -> list[Siblings[NodeT]]:
        found: list[Siblings[NodeT]] = []
        path = b""
        for group in self._decode(blob):
            if group.suffix:
                path = path[: group.shared] + group.suffix
            found.append(
                Siblings(
                    path,
                    group.shared + len(group.suffix),
                    group.depth,
                    group.index,
                    group.nodes,
                    group.scores if group.scored_by == self.scored_by else [],
                    group.stage,
                    group.weight,
                )
            )
        return found

    def _encode_group(self, group: Siblings[NodeT], shared: int) -> bytes:
        coded = Group(
            shared,
            group.path[shared : group.length],
            group.depth,
            group.index,
            group.stage,
            group.weight,
            group.nodes,
            group.scores,
            self.scored_by if group.scores else 0,
        )
        try:
            return self._encode(coded)
        except Exception:
            raise self._unencodable(group) from None

    def _unencodable(self, group: Siblings[NodeT]) -> ProblemError:
        for offset, node in enumerate(group.nodes):
            try:
                self._encode(node)
            except Exception as error:
                reason = f"this node cannot be encoded: {error}"
                return ProblemError(self._problem, "expand", reason, steps(group.path_of(offset)))
        return ProblemError(self._problem, "expand", "a node cannot be encoded")


class _Box:
    """A bundle in the making."""

    def __init__(self, rank: int) -> None:
        self.pieces: list[bytes] = []
        self.bytes = 0
        self._rank = rank
        self._size = 0
        self._depth = 1 << 60
        self._priority = float("inf")
        self._weight = 0.0

    def add(self, piece: bytes, group: Siblings[Any], by_score: bool) -> None:
        self.pieces.append(piece)
        self.bytes += len(piece)
        self._size += len(group.nodes)
        self._depth = min(self._depth, group.depth)
        self._weight += group.weight * len(group.nodes)
        best = min(group.scores) if by_score and group.scores else float(group.depth)
        self._priority = min(self._priority, best)

    def closed(self) -> Bundle:
        return Bundle(
            _joined(self.pieces), self._size, self._depth, self._priority, self._rank, self._weight
        )


def _in_pieces(siblings: Iterable[Siblings[NodeT]]) -> Iterator[Siblings[NodeT]]:
    for group in siblings:
        count = len(group.nodes)
        if 0 < count <= GROUP_NODES:
            yield group
        else:
            for start in range(0, count, GROUP_NODES):
                yield _cut(group, start, min(start + GROUP_NODES, count))


def _shared(before: Siblings[Any] | None, group: Siblings[Any]) -> int:
    if before is None:
        return 0
    if before.path is group.path:
        return min(before.length, group.length)
    return min(shared_prefix(before.path, group.path), before.length, group.length)


def _joined(pieces: Sequence[bytes]) -> bytes:
    """Writes encoded items as one msgpack array."""
    return b"\xdd" + len(pieces).to_bytes(4, "big") + b"".join(pieces)


def halves(groups: list[Siblings[NodeT]]) -> tuple[list[Siblings[NodeT]], list[Siblings[NodeT]]]:
    """Splits every group in two, so that both sides get a like share of every depth.

    Odd ones go to alternating sides, the first of them away: a lone subtree can be given too.
    """
    kept: list[Siblings[NodeT]] = []
    given: list[Siblings[NodeT]] = []
    give_odd = True
    for group in groups:
        count = len(group.nodes)
        keep = count // 2
        if count % 2:
            keep += not give_odd
            give_odd = not give_odd
        kept.append(_cut(group, 0, keep))
        given.append(_cut(group, keep, count))
    return kept, given


def _cut(group: Siblings[NodeT], start: int, end: int) -> Siblings[NodeT]:
    return Siblings(
        group.path,
        group.length,
        group.depth,
        group.index + start,
        group.nodes[start:end],
        group.scores[start:end],
        group.stage,
        group.weight,
    )
