r"""Open subtrees on their way between processes: siblings in `Group`s, groups in `Bundle`s.

The host moves bundles without looking inside, so a bundle is bytes with a label: how many subtrees,
how deep, how promising. Inside, a group is a run of consecutive siblings, which share their
parent's path. That path is front-coded: a group says how many leading bytes it shares with the
group before it, and the rest. For the children 3, 4 and 5 of the node at path `b"\x01\x07"`, after
a group below `b"\x01\x02"`:

    Group(shared=1, suffix=b"\x07", depth=3, index=3, ..., nodes=[n3, n4, n5])

In a deep tree almost all of a path is shared, so a bundle's size grows with its nodes and not with
their depth.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from ...errors import ProblemError
from ..wire.reference import plain_scalar
from .paths import shared_prefix, step, steps

NodeT = TypeVar("NodeT")

BUNDLE_BYTES = 48 * 1024
"""A `Bundle` is closed when it reaches this size, so that frames stay below `MAX_FRAME`, 64 KB."""
GROUP_NODES = 256


class NodeStage(enum.IntEnum):
    """How far a node has come that is not explored yet; a larger stage has been through more."""

    FRESH = 0
    CLAIMED = 1
    """The key of the node is claimed; asking the table again would find the node's own claim,
    `Claim.DUPLICATE`."""
    DECIDED = 2
    """The obligation of the node has its answer, `proved` or an `unknown` that is kept or was put
    off: the node is explored without asking again."""


class Group(Struct, Generic[NodeT], frozen=True, array_like=True):
    """Consecutive siblings as they are encoded; `path[:shared] + suffix` is their parent's path."""

    shared: int
    suffix: bytes
    depth: int
    index: int
    stage: int
    weight: float
    nodes: list[NodeT]
    scores: list[float]
    scored_by: int
    """The number of the function that computed `scores`, see `Codec.scored_by`; after a resume with
    another order they are void and the nodes are scored anew."""


class Siblings(Struct, Generic[NodeT]):
    """A `Group` as explorers use it. The parent's path is the first `length` bytes of `path`,
    which all groups along one branch share: in a deep tree, copies of it would take all the
    time."""

    path: bytes
    length: int
    depth: int
    index: int
    nodes: list[NodeT]
    scores: list[float] = []
    stage: int = NodeStage.FRESH
    weight: float = 1.0
    """Each node's share of the tree, from 0 to 1, if every node's children shared its own alike."""

    @property
    def parent(self) -> bytes:
        return self.path[: self.length]

    def path_of(self, offset: int) -> bytes:
        """The path of the node at `nodes[offset]`."""
        return self.parent + step(self.index + offset) if self.depth else b""


class Bundle(Struct, frozen=True, array_like=True, gc=False):
    """Some open subtrees, packed. The host keeps and moves bundles but never decodes a `blob`."""

    blob: bytes
    size: int
    """How many subtrees are in `blob`."""
    depth: int
    """The depth of the shallowest subtree in `blob`."""
    priority: float
    """The lowest score in `blob`, or `depth` where nodes have no scores; lower goes first."""
    rank: int = 0
    """Bundles of rank 0 go before those of rank 1, which holds what `on_unknown="defer"` puts
    off."""
    weight: float = 1.0
    """The share of the tree in it, from 0 to 1, as far as one can tell: what a progress bar
    shows."""


ROOT = Bundle(b"", 1, 0, 0.0)
"""Stands for the problem's root, which only a worker computes: its `blob` is empty."""


class Codec(Generic[NodeT]):
    """Packs and unpacks the nodes of one problem; `node_type` is what msgspec decodes them to."""

    def __init__(self, problem: str, node_type: Any) -> None:
        self._problem = problem
        self.scored_by = 0
        """A number for the function behind the scores that this process packs; `unpack`
        drops the scores of another function."""
        self._encode = msgspec.msgpack.Encoder(enc_hook=plain_scalar).encode
        self.decode_node = msgspec.msgpack.Decoder(node_type).decode
        group: Any = Group
        self._decode = msgspec.msgpack.Decoder(list[group[node_type]]).decode

    def encode_node(self, node: NodeT) -> bytes:
        return self._encode(node)

    def pack(
        self, siblings: Iterable[Siblings[NodeT]], by_score: bool, rank: int = 0
    ) -> list[Bundle]:
        """Packs groups in their order into as many bundles as `BUNDLE_BYTES` asks for.

        `by_score` makes the lowest score a bundle's `priority`; otherwise that is the
        lowest depth.
        """
        bundles: list[Bundle] = []
        box = _Box(rank)
        before: Siblings[NodeT] | None = None
        for group in _in_pieces(siblings):
            piece = self._encode_group(group, _shared(before, group))
            if box.pieces and box.bytes + len(piece) > BUNDLE_BYTES:
                bundles.append(box.closed())
                box = _Box(rank)
                # The first group of a bundle has no group before it, so its path is whole
                piece = self._encode_group(group, 0)
            box.add(piece, group, by_score)
            before = group
        if box.pieces:
            bundles.append(box.closed())
        return bundles

    def unpack(self, blob: bytes) -> list[Siblings[NodeT]]:
        groups: list[Siblings[NodeT]] = []
        path = b""
        for group in self._decode(blob):
            # Groups of one branch often share the whole path, and then the same bytes object: see
            # `_shared`
            if group.suffix:
                path = path[: group.shared] + group.suffix
            groups.append(
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
        return groups

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
            # Only now is it worth finding the node to blame: the usual case encodes the group at
            # once
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
    """A `Bundle` that is being filled."""

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
    # Identity first: comparing two long paths byte by byte for every group would be quadratic
    if before.path is group.path:
        return min(before.length, group.length)
    return min(shared_prefix(before.path, group.path), before.length, group.length)


def _joined(pieces: Sequence[bytes]) -> bytes:
    """Writes encoded groups as one msgpack array: `0xdd`, four bytes of length, and the groups."""
    return b"\xdd" + len(pieces).to_bytes(4, "big") + b"".join(pieces)


def halves(groups: list[Siblings[NodeT]]) -> tuple[list[Siblings[NodeT]], list[Siblings[NodeT]]]:
    """Splits every group in two, so that both sides get a like share of every depth.

    An odd node goes to alternating sides, the first of them away, so that a lone subtree can be
    given too: groups of 3, 2 and 1 nodes are retained as 1, 1 and 1, and published as 2, 1 and
    0.
    """
    retained: list[Siblings[NodeT]] = []
    published: list[Siblings[NodeT]] = []
    give_odd = True
    for group in groups:
        count = len(group.nodes)
        keep = count // 2
        if count % 2:
            keep += not give_odd
            give_odd = not give_odd
        retained.append(_cut(group, 0, keep))
        published.append(_cut(group, keep, count))
    return retained, published


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
