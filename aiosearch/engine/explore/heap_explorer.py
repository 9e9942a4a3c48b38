"""The explorer for all but plain depth-first search: a heap with bounds, keys and obligations.

The problem: one loop for every order, for pruning, claimed keys, obligations that z3 answers later,
and an asynchronous `expand`, all at once. Open nodes are a heap of `HeapEntry`s, and what comes out
first is the order: `sort` is the depth (breadth first), the score (best first), the negated depth
(branch and bound; the score breaks ties), or zero (depth first: paths sort that way).

A node goes through `_admit`, which may end it: its bound against the incumbent, then its key, then
its obligation. An open question parks the entry under the question's digest; `answer` brings it
back as `NodeStage.DECIDED`, so that it is not asked again. For example, under branch and bound with
the incumbent 12:

    pop (-3.0, 9.5, ...)    key new, obligation asked: parked under digest d
    pop (-3.0, 13.0, ...)   bound 13 >= 12: pruned, never expanded
    answer(d, PROVED)       pushed again at stage DECIDED
    pop (-3.0, 9.5, ...)    solutions, expand, children pushed at sort -4.0

Invariant: an entry is in exactly one of `_heap`, `_parked`, `_deferred` and `_lanes`, or its
subtree is finished; `snapshot` packs all four, so a report never loses a node. A node is counted
when its children are pushed, all of them or none.

Cost: O(log n) for a node among n open ones (benchmarks/nodes.py prints what it adds to
plain recursion). See docs/why/design.md.
"""

from __future__ import annotations

import heapq
import itertools
import math
import zlib
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from ...checks.verdict import Status
from ...errors import ProblemError
from ...orders import Order
from ...problem import NodeT, Obligation, Problem
from .bundles import Bundle, Codec, NodeStage, Siblings
from .claims import Claim, LocalClaims, SharedClaims, key_digest
from .explorer import Clock, Explorer, as_children, checked_cost, clock, fitted
from .paths import step, steps

if TYPE_CHECKING:
    import asyncio

HeapEntry: TypeAlias = tuple[float, float, bytes, int, int, int, int, float, Any]
"""One open node, as the heap compares it:

    (sort, score, path, serial, length, depth, stage, weight, node)
    (0.0,  7.5,   b"\\x02\\x00", 41, 1, 2, NodeStage.FRESH, 0.125, (3, 1))

`sort` is what the order goes by and `score` what `Order.score` gave; `path` and `length` are as in
`Siblings` (the parent's path is `path[:length]`). Serial numbers differ, so comparing two entries
never reaches the node.
"""
# A plain tuple: building a NamedTuple takes 250 ns where this takes 40, of some 2,500 that a node
# of `Queens` takes here (benchmarks/nodes.py), and the garbage collector never stops visiting a
# NamedTuple.
SORT: Final = 0
SCORE: Final = 1
PATH: Final = 2
DEPTH: Final = 5
STAGE: Final = 6
WEIGHT: Final = 7
NODE: Final = 8
"""Where a `HeapEntry` holds its node; the names above say the same of its other fields."""

MOST_PARKED = 512
"""Nodes that may wait for verdicts at once; then `idle` is true and the explorer waits with them.
"""
MOST_VERDICTS = 200_000
NO_BOUND = -math.inf


class HeapExplorer(Explorer[NodeT]):
    """Explores in any `Order`, with pruning, claimed keys, obligations and asynchronous
    `expand`."""

    def __init__(
        self,
        problem: Problem[NodeT, Any],
        codec: Codec[NodeT],
        skip_errors: bool,
        order: Order,
        claims: LocalClaims | SharedClaims | None,
        ask: Callable[[bytes, Obligation, float], None],
        digest: Callable[[Obligation], bytes],
        on_unknown: str,
        record_keys: bool = False,
        reopens: bool = False,
        clock: Clock = clock,
    ) -> None:
        super().__init__(problem, codec, skip_errors, clock)
        self._order = order
        self._score = order.score(problem)
        self._prunes = order.prunes
        self._has_bound = self.capabilities.bound is not None
        self._bound = self.capabilities.bound or _absent
        self._score_is_bound = self._score is not None and self._score == self._bound
        # Bundles from a worker or a run with another scoring function are scored anew
        codec.scored_by = _name_of(self._score)
        self._cost = self.capabilities.cost
        self._key = self.capabilities.key or _absent
        self._claims = claims
        self._has_obligation = self.capabilities.obligation is not None
        self._obligation = self.capabilities.obligation or _absent
        self._ask = ask
        self._digest = digest
        self._on_unknown = on_unknown
        self._heap: list[HeapEntry] = []
        self._serial = itertools.count()
        self._parked: dict[bytes, list[HeapEntry]] = {}
        self.parked = 0
        self._deferred: list[HeapEntry] = []
        self._verdicts: dict[bytes, Status] = {}
        self._most_lanes = self.capabilities.lanes
        self._lanes: dict[asyncio.Task[list[NodeT]], HeapEntry] = {}
        self._method = "expand"
        self._claimed = False
        self._reopens = reopens
        self._keys: list[bytes] | None = [] if record_keys else None
        self.incumbent = float("inf")
        """The cost to beat, of a solution found here or told by `beat`."""

    @property
    def empty(self) -> bool:
        """Whether nothing is open but what `on_unknown="defer"` put off."""
        return not (self._heap or self.parked or self._lanes)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to run until a verdict comes or an expansion under way ends."""
        # Beyond that many parked nodes the heap may hold nothing but nodes that wait as well
        if not self._heap or self.parked >= MOST_PARKED or self._past_horizon:
            return not self._lanes
        return False

    @property
    def _past_horizon(self) -> bool:
        return self.horizon > 0 and self._heap[0][DEPTH] >= self.horizon

    @property
    def at_horizon(self) -> bool:
        return bool(self._heap) and self._past_horizon and not (self.parked or self._lanes)

    @property
    def surplus(self) -> int:
        return max(len(self._heap) - 1, 0)

    def _load(self, groups: list[Siblings[NodeT]]) -> None:
        for group in groups:
            entries = self._entries(
                group.nodes,
                group.parent,
                group.depth,
                group.weight,
                group.index,
                group.stage,
                group.scores,
            )
            for entry in entries:
                heapq.heappush(self._heap, entry)

    def _entries(
        self,
        nodes: Sequence[NodeT],
        parent: bytes,
        depth: int,
        weight: float,
        index: int = 0,
        stage: int = NodeStage.FRESH,
        scores: Sequence[float] = (),
    ) -> list[HeapEntry]:
        order = self._order
        # Under branch and bound a child goes before every shallower node (the dive that finds
        # incumbents early), and among siblings the score decides, as the tuple's second field
        sort = float(depth) if order.by_level else float(-depth) if self._prunes else 0.0
        scored = self._score
        entries: list[HeapEntry] = []
        length = len(parent)
        for offset, node in enumerate(nodes):
            path = parent + step(index + offset) if depth else b""
            score = 0.0
            if scores:
                score = scores[offset]
            elif scored is not None:
                node_score = self._scored(scored, node, path)
                if node_score is None:
                    continue
                score = node_score
            if order.greedy:
                sort = score
            serial = next(self._serial)
            entries.append((sort, score, path, serial, length, depth, stage, weight, node))
        return entries

    def _scored(self, score: Callable[[Any], float], node: NodeT, path: bytes) -> float | None:
        """Scores a node; None where `skip_errors` gives it up because that raised."""
        try:
            value = float(score(node))
            if value != value:
                raise ValueError("nan is no score")
        except Exception as error:
            method = getattr(score, "__name__", "priority")
            if self.skip_errors:
                self.counts.skipped += 1
                return None
            raise self._problem_error(method, error, steps(path), node) from error
        return value

    def run(self, deadline: int, nodes: int) -> int:
        clock = self.clock
        started = now = clock()
        counts = self.counts
        first = counts.nodes
        last = first + nodes
        expand = self.capabilities.expand
        while self._heap and now < deadline and counts.nodes < last:
            # The clock is read once in `batch` nodes, as in `DepthFirstExplorer`
            for _ in range(self.batch):
                if self.idle or counts.nodes >= last:
                    break
                entry = heapq.heappop(self._heap)
                try:
                    if self._admit(entry):
                        self._take_solutions(entry)
                        self._method = "expand"
                        self._grow(entry, as_children(expand(entry[NODE])))
                except (Exception, SystemExit) as error:
                    self._fail(entry, error, self._claimed)
            if self.idle:
                break
            before, now = now, clock()
            self.batch = fitted(self.batch, now - before)
        counts.busy_ns += clock() - started
        return counts.nodes - first

    async def run_async(self, deadline: int, nodes: int) -> int:
        """Explores like `run` with an asynchronous `expand`: many expansions are under way
        at once."""
        import asyncio  # here and below: plain problems never need it

        clock = self.clock
        started = clock()
        first = self.counts.nodes
        last = first + nodes
        while (self._heap or self._lanes) and clock() < deadline and self.counts.nodes < last:
            # The heap's order is kept as far as lanes go: the best nodes are expanded first, their
            # children come when they come
            while self._heap and len(self._lanes) < self._most_lanes and self.parked < MOST_PARKED:
                # Lanes count against the limit before they end, so that a limit on nodes is never
                # passed
                if self._past_horizon or self.counts.nodes + len(self._lanes) >= last:
                    break
                if self.clock() >= deadline and self._lanes:
                    break
                self._open_lane(heapq.heappop(self._heap))
            if not self._lanes:
                break
            seconds = max(deadline - clock(), 0) / 1e9
            await asyncio.wait(self._lanes, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            self._close_lanes()
        self.counts.busy_ns += clock() - started
        return self.counts.nodes - first

    def _open_lane(self, entry: HeapEntry) -> None:
        import asyncio

        try:
            if self._admit(entry):
                self._take_solutions(entry)
                self._method = "expand"
                lane = asyncio.ensure_future(collect(self.capabilities.expand(entry[NODE])))
                self._lanes[lane] = entry
        except (Exception, SystemExit) as error:
            self._fail(entry, error, self._claimed)

    def _close_lanes(self) -> None:
        for lane in [lane for lane in self._lanes if lane.done()]:
            entry = self._lanes.pop(lane)
            self._method = "expand"
            try:
                if lane.cancelled():
                    raise RuntimeError("was cancelled from inside")
                self._grow(entry, lane.result())
            except (Exception, SystemExit) as error:
                self._fail(entry, error, claimed=True)

    def _fail(self, entry: HeapEntry, error: BaseException, claimed: bool) -> None:
        """Gives up the subtree under `skip_errors`, or the search; the node stays open then."""
        if not self.skip_errors:
            # Open again with its claim: without, the resumed search would take its own claim for a
            # duplicate
            heapq.heappush(self._heap, _claimed(entry) if claimed else entry)
            path, node = steps(entry[PATH]), entry[NODE]
            raise self._problem_error(self._method, error, path, node) from error
        self.counts.skipped += 1

    def _admit(self, entry: HeapEntry) -> bool:
        """Decides whether a node is explored now: by its bound, then its key, then its
        obligation."""
        _, score, _, _, _, _, stage, _, node = entry
        bound = NO_BOUND
        if self._prunes:
            bound = score
            if not self._score_is_bound:
                self._method = "bound"
                bound = float(self._bound(node))
            if bound >= self.incumbent:
                self.counts.pruned += 1
                return False
        # No pruning, but claims carry bounds: another order prunes in the same search
        elif self._reopens:
            self._method = "bound"
            bound = float(self._bound(node))
        # Remembered for `_fail`: what raises after the claim has to stay claimed
        self._claimed = stage > NodeStage.FRESH
        if stage == NodeStage.FRESH and self._claims is not None:
            if not self._claim(node, bound):
                return False
            self._claimed = True
        return stage == NodeStage.DECIDED or not self._has_obligation or self._cleared(entry)

    def _claim(self, node: NodeT, bound: float) -> bool:
        assert self._claims is not None
        self._method = "key"
        value = self._key(node)
        if value is None:
            raise TypeError("returned None; equal keys mean equal subtrees, so give every node one")
        key = key_digest(value)
        claim = self._claims.claim(key, bound)
        if claim is Claim.DUPLICATE:
            self.counts.duplicates += 1
            return False
        if self._keys is not None:
            self._keys.append(key)
        if claim is Claim.NEW:
            return True
        if claim is Claim.REOPENED:
            self.counts.reopened += 1
        else:
            self.counts.unclaimed += 1
        return True

    def _cleared(self, entry: HeapEntry) -> bool:
        """Whether z3 lets the subtree live; parks the node while nobody knows."""
        self._method = "obligation"
        obligation = self._obligation(entry[NODE])
        if obligation is None:
            return True
        digest = self._digest(obligation)
        status = self._verdicts.get(digest)
        if status is not None:
            return self._judged(entry, status)
        waiting = self._parked.get(digest)
        self.parked += 1
        # Many nodes may wait for one question: only the first asks
        if waiting is not None:
            waiting.append(entry)
        else:
            self._parked[digest] = [entry]
            self._ask(digest, obligation, entry[SORT])
        return False

    def answer(self, digest: bytes, status: Status) -> None:
        """Takes a verdict, and resumes or prunes the nodes that waited for it."""
        # Forgetting all is right: a forgotten verdict is asked again and the service still knows it
        if len(self._verdicts) >= MOST_VERDICTS:
            self._verdicts.clear()
        self._verdicts[digest] = status
        for entry in self._parked.pop(digest, ()):
            self.parked -= 1
            if self._judged(entry, status):
                heapq.heappush(self._heap, _decided(entry))

    def beat(self, cost: float) -> list[bytes]:
        """Takes a better solution's `cost`; gives the digests that nobody needs answered now."""
        self.incumbent = min(self.incumbent, cost)
        # Only where the score is the bound is it known without calling the problem for every entry
        if not (self._prunes and self._parked and self._score_is_bound):
            return []
        moot = []
        for digest, entries in list(self._parked.items()):
            alive = [entry for entry in entries if entry[SCORE] < self.incumbent]
            self.parked -= len(entries) - len(alive)
            self.counts.pruned += len(entries) - len(alive)
            if alive:
                self._parked[digest] = alive
            else:
                del self._parked[digest]
                moot.append(digest)
        return moot

    def _judged(self, entry: HeapEntry, status: Status) -> bool:
        counts = self.counts
        if status is Status.PROVED:
            counts.proved += 1
            return True
        if status is Status.REFUTED:
            counts.refuted += 1
            return False
        counts.unknown += 1
        if self._on_unknown == "defer":
            self._deferred.append(_decided(entry))
        return self._on_unknown == "keep"

    def _grow(self, entry: HeapEntry, children: list[NodeT]) -> None:
        """Counts an expanded node and opens its children: all of them, or none."""
        _, _, path, _, _, depth, _, weight, _ = entry
        entries: list[HeapEntry] = []
        if children:
            share = weight / len(children)
            entries = self._entries(children, path, depth + 1, share)
        counts = self.counts
        counts.nodes += 1
        counts.leaves += not children
        if depth > counts.depth:
            counts.depth = depth
        self.depths[depth] = self.depths.get(depth, 0) + 1
        for child in entries:
            heapq.heappush(self._heap, child)

    def _take_solutions(self, entry: HeapEntry) -> None:
        self._method = "solutions"
        node = entry[NODE]
        if solutions := self.capabilities.solutions(node):
            self._take(node, entry[PATH], solutions)

    def _take(self, node: NodeT, path: bytes, solutions: Iterable[object]) -> None:
        for solution in solutions:
            if self._cost is None:
                self.found.append((solution, None))
                continue
            self._method = "cost"
            cost = checked_cost(self._cost(solution))
            self._check_bound(node, path, cost)
            better = cost < self.incumbent
            if better:
                self.incumbent = cost
                self.improved = True
            # Without pruning all solutions count; with it, only those that improve
            if better or not self._prunes:
                self.found.append((solution, cost))

    def _check_bound(self, node: NodeT, path: bytes, cost: float) -> None:
        if not self._has_bound:
            return
        self._method = "bound"
        bound = float(self._bound(node))
        # Relative tolerance: a bound and a cost summed in different orders differ in their last
        # bits
        if bound > cost + 1e-9 * max(abs(bound), abs(cost)):
            reason = (
                f"gave {bound:g}, above the cost {cost:g} of a solution at this very node; "
                "a bound must never exceed the cost of any solution in the subtree"
            )
            raise ProblemError(self.name, "bound", reason, steps(path))

    def snapshot(self) -> list[Bundle]:
        waiting = [_claimed(entry) for entries in self._parked.values() for entry in entries] + [
            _claimed(entry) for entry in self._lanes.values()
        ]
        return self._packed(self._heap + waiting) + self._packed(self._deferred, rank=1)

    def split(self, pieces: int = 1) -> list[Bundle]:
        """Gives every other open node away, so that both sides are equally promising."""
        # Sorted is a heap too, and so is every other element of it: no heapify is needed
        self._heap.sort()
        published = self._heap[1::2]
        self._heap = self._heap[0::2]
        self.counts.published += len(published)
        return [bundle for at in range(pieces) for bundle in self._packed(published[at::pieces])]

    def close(self) -> None:
        for lane in self._lanes:
            lane.cancel()

    def drain(self) -> list[Bundle]:
        bundles = self.snapshot()
        self.close()
        self._heap, self._deferred, self.parked = [], [], 0
        self._parked.clear()
        self._lanes.clear()
        return bundles

    def drain_singly(self) -> list[Bundle]:
        """Gives everything away, each subtree as a bundle of its own, in depth-first order."""
        entries = sorted(self._heap, key=lambda entry: entry[PATH])
        self._heap = []
        bundles = [bundle for entry in entries for bundle in self._packed([entry])]
        return bundles + self.take_deferred()

    def take_keys(self) -> bytes:
        if not self._keys:
            return b""
        keys, self._keys = b"".join(self._keys), []
        return keys

    def take_deferred(self) -> list[Bundle]:
        """Gives away what was put off, in bundles of rank 1, once nothing else is left here."""
        deferred, self._deferred = self._deferred, []
        return self._packed(deferred, rank=1)

    def _packed(self, entries: list[HeapEntry], rank: int = 0) -> list[Bundle]:
        if self._order.greedy or self._order.by_level:
            entries = sorted(entries)
        else:
            entries = sorted(entries, key=lambda entry: entry[PATH])
        return self.codec.pack(self._siblings(entries), self._score is not None, rank)

    def _siblings(self, entries: Iterable[HeapEntry]) -> Iterable[Siblings[NodeT]]:
        """Joins entries into `Siblings`: runs at one stage whose indices follow each other."""
        scored = self._score is not None
        group: Siblings[NodeT] | None = None
        for _, score, path, _, length, depth, stage, weight, node in entries:
            index = max(steps(path[length:])[0], 0) if depth else 0
            if (
                group is None
                or group.stage != stage
                or group.index + len(group.nodes) != index
                or group.parent != path[:length]
            ):
                if group is not None:
                    yield group
                group = Siblings(path, length, depth, index, [], [], stage, weight)
            group.nodes.append(node)
            if scored:
                group.scores.append(score)
        if group is not None:
            yield group


def _absent(node: object) -> NoReturn:
    """Stands for an optional method that the problem lacks; whoever calls it has ruled that out."""
    raise AssertionError("the problem has no such method")


def _name_of(score: Callable[..., float] | None) -> int:
    """A number for a scoring function that is the same in every process and run: `zlib.crc32`
    of its name."""
    if score is None:
        return 0
    return zlib.crc32(getattr(score, "__qualname__", repr(type(score))).encode())


def _decided(entry: HeapEntry) -> HeapEntry:
    return (*entry[:STAGE], NodeStage.DECIDED, *entry[WEIGHT:])


def _claimed(entry: HeapEntry) -> HeapEntry:
    return (*entry[:STAGE], max(entry[STAGE], NodeStage.CLAIMED), *entry[WEIGHT:])


async def collect(children: Any) -> list[Any]:
    """Takes what an asynchronous `expand` gives: an async iterable, or something to await."""
    if isinstance(children, AsyncIterable):
        return [child async for child in children]
    if isinstance(children, Awaitable):
        children = await children
    return list(as_children(children))
