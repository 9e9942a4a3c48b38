"""Explorers: the base class, and the loop of plain depth-first search.

An explorer does no input or output. It is loaded with bundles, runs until a deadline, and can be
asked at any pause for half of what it holds, or all of it. `DepthFirstExplorer` is the short loop
for the common case; `HeapExplorer` does everything else.

    explorer = DepthFirstExplorer(Queens(8), Codec("Queens", list[int]))
    explorer.load(ROOT)
    explorer.run(clock() + 2_000_000, nodes=1 << 60)   # a slice of 2 ms
    explorer.split()                                 # half of it, as bundles
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random
from typing import Any, Generic, TypeAlias

from ...errors import ProblemError
from ...problem import NodeT, Problem
from .bundles import Bundle, Codec, NodeStage, Siblings, halves
from .capabilities import Capabilities
from .counts import Counts
from .paths import ELIDED, LONGEST, step, steps

Clock: TypeAlias = Callable[[], int]
"""Tells nanoseconds; a simulation has a virtual clock."""

clock: Clock = time.perf_counter_ns

SHORT_BATCH_NS = 100_000
LONG_BATCH_NS = 400_000
LARGEST_BATCH = 512
"""Bounds how long a pause is overlooked when nodes suddenly take longer than `LONG_BATCH_NS`."""
_NO_NODE = object()
"""Stands for the node where there is none yet."""
CHECK_EVERY = 20_000
"""One node in this many is expanded twice, to catch an `expand` that is not repeatable."""


class Explorer(Generic[NodeT]):
    """What both explorers share: capabilities, codec, counters, solutions and error paths."""

    def __init__(
        self,
        problem: Problem[NodeT, Any],
        codec: Codec[NodeT],
        skip_errors: bool = False,
        clock: Clock = clock,
    ) -> None:
        self.capabilities = Capabilities.of(problem)
        self.codec = codec
        self.skip_errors = skip_errors
        self.clock = clock
        self.counts = Counts()
        self.depths: dict[int, int] = {}
        """How many of the nodes since the last report lie at which depth, or about how many."""
        self.found: list[tuple[object, float | None]] = []
        """Solutions since the last report, each with its cost, or None where the problem
        has no `cost`."""
        self.improved = False
        """Whether `found` holds an improvement, which is reported within milliseconds."""
        self.name = self.capabilities.name
        self.batch = 1
        """How many nodes are explored between two looks at the clock; see `fitted`."""

    def load(self, bundle: Bundle) -> None:
        """Takes over the subtrees of a bundle; the empty `blob` of `ROOT` stands for the root."""
        if bundle.blob:
            self._load(self.codec.unpack(bundle.blob))
        else:
            self._load([Siblings(b"", 0, 0, 0, [self.root()])])

    def root(self) -> NodeT:
        """Computes the root and checks on it that the problem keeps its contract."""
        try:
            root = self.capabilities.root()
        except (Exception, SystemExit) as error:
            raise self._problem_error("root", error, ()) from error
        self.check_contract(root, tuple)
        for index, child in enumerate((self.children_of(root, tuple) or ())[:64]):
            self.check_round_trip(child, partial(tuple, (index,)))
        return root

    def check_round_trip(self, node: NodeT, path: Callable[[], tuple[int, ...]]) -> None:
        try:
            again = self.codec.decode_node(self.codec.encode_node(node))
        except Exception as error:
            reason = f"this node cannot travel between processes: {error} (node: {_short(node)})"
            raise self._travel_error(reason, path()) from None
        # `1 == True == 1.0`, so equality alone would let a node change its type on the way
        if again != node or type(again) is not type(node):
            reason = (
                f"this node changes on its way between processes: {_short(node)} arrives as "
                f"{_short(again)}; annotate the return type of root with the exact type of a node"
            )
            raise self._travel_error(reason, path())

    def _travel_error(self, reason: str, path: tuple[int, ...]) -> ProblemError:
        return ProblemError(self.name, "expand" if path else "root", reason, path)

    def children_of(self, node: NodeT, path: Callable[[], tuple[int, ...]]) -> list[NodeT] | None:
        """Expands a node for a check; None where `expand` is asynchronous."""
        try:
            return as_children(self.capabilities.expand(node))
        except NotPlainError:
            return None
        except (Exception, SystemExit) as error:
            if self.skip_errors:
                return None
            raise self._problem_error("expand", error, path(), node) from error

    def check_contract(self, node: NodeT, path: Callable[[], tuple[int, ...]]) -> None:
        """Expands a node twice, and sends it through its codec and back; raises `ProblemError`."""
        children = self.children_of(node, path)
        if children is not None:
            again = self.children_of(node, path) or []
            if children != again:
                reason = (
                    "not repeatable: the same node gave other children the second time "
                    f"({len(children)} and {len(again)} of them); "
                    "derive everything from the node itself"
                )
                raise ProblemError(self.name, "expand", reason, path())
        self.check_round_trip(node, path)

    def _problem_error(
        self, method: str, error: BaseException, path: tuple[int, ...], node: object = _NO_NODE
    ) -> ProblemError:
        if isinstance(error, ProblemError):
            return error
        where = "" if node is _NO_NODE else f" (node: {_short(node)})"
        reason = f"{type(error).__name__}: {error}{where}"
        return ProblemError(self.name, method, reason, path)

    def take_found(self) -> list[tuple[object, float | None]]:
        solutions, self.found = self.found, []
        self.improved = False
        return solutions

    def take_counts(self) -> Counts:
        counts, self.counts = self.counts, Counts()
        return counts

    def take_depths(self) -> dict[int, int]:
        """About how many nodes were explored at which depth since the last report."""
        depths, self.depths = self.depths, {}
        return depths

    def take_keys(self) -> bytes:
        """The keys claimed since the last report, where `record_keys` asks for them."""
        return b""

    def take_deferred(self) -> list[Bundle]:
        """Gives away what `on_unknown="defer"` put off, once nothing else is left here."""
        return []

    def beat(self, cost: float) -> list[bytes]:
        """Takes a better solution's `cost`; gives the questions that nobody needs answered now."""
        return []

    horizon = 0
    """Where not zero: nodes at this depth stay unexplored. Only a `HeapExplorer` heeds it."""

    @property
    def at_horizon(self) -> bool:
        """Whether all that is left lies at the `horizon`."""
        return False

    @property
    def empty(self) -> bool:
        """Whether nothing is open but what `take_deferred` gives."""
        raise NotImplementedError

    @property
    def idle(self) -> bool:
        """Whether there is nothing to run now, if only because verdicts are awaited."""
        raise NotImplementedError

    @property
    def surplus(self) -> int:
        """How many subtrees could be given away; beyond a few, at least this many."""
        raise NotImplementedError

    def run(self, deadline: int, nodes: int) -> int:
        """Explores until `deadline` on `clock` or that many `nodes`; says how many it explored."""
        raise NotImplementedError

    def snapshot(self) -> list[Bundle]:
        """Packs everything open and keeps it, for a report."""
        raise NotImplementedError

    def split(self, pieces: int = 1) -> list[Bundle]:
        """Gives about half of what is open away, so that both sides hold like shares of
        every depth.

        It comes in some `pieces`, a power of two, which are alike as well; there may be
        more or fewer bundles than pieces.
        """
        raise NotImplementedError

    def drain(self) -> list[Bundle]:
        """Gives everything away and holds nothing."""
        raise NotImplementedError

    def drain_singly(self) -> list[Bundle]:
        """Gives everything away, each subtree as a bundle of its own, in depth-first order."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends expansions that are still under way."""
        return

    def _load(self, groups: list[Siblings[NodeT]]) -> None:
        raise NotImplementedError


class DepthFirstExplorer(Explorer[NodeT]):
    """Plain depth-first search: no bound, key, obligation or asynchronous `expand`.

    The tree above the current node is a stack of list iterators, `_above`, and `_level`
    iterates over the siblings that are being explored. That is as fast as CPython goes: a leaf
    never touches the stack, and an iterator knows its own position when a pause needs it. The
    ratio to plain recursion is printed by benchmarks/nodes.py.

    For a base group `[a, b]` in which `a` has the children `[c, d]` and `c` is a leaf that was
    just explored, `_above` is `[iterator over [a, b], at b]`, `_level` is `iterator over [c,
    d], at d`, and `groups()` gives `[b]` and `[d]`.
    """

    def __init__(
        self,
        problem: Problem[NodeT, Any],
        codec: Codec[NodeT],
        skip_errors: bool = False,
        clock: Clock = clock,
    ) -> None:
        super().__init__(problem, codec, skip_errors, clock)
        self._backlog: list[Siblings[NodeT]] = []  # explored from its end
        self._base = Siblings[NodeT](b"", 0, 0, 0, [])
        self._level: Iterator[NodeT] = iter([])
        self._above: list[Iterator[NodeT]] = []
        self._unchecked = 0
        self._cost = self.capabilities.cost
        self._unsampled = 0
        self._chance = Random(0).random

    def _load(self, groups: list[Siblings[NodeT]]) -> None:
        self._backlog[:0] = reversed(groups)

    def take_depths(self) -> dict[int, int]:
        if self._unsampled:
            self._sample_depth(len(self._above), 0)
        return super().take_depths()

    @property
    def empty(self) -> bool:
        return not (self._backlog or self._above or _left(self._level))

    @property
    def idle(self) -> bool:
        return self.empty

    @property
    def surplus(self) -> int:
        count = sum(len(group.nodes) for group in self._backlog[-4:])
        for level in (*self._above, self._level):
            count += _left(level)
            if count > 8:
                break
        return max(count - 1, 0)

    def run(self, deadline: int, nodes: int) -> int:
        started = self.clock()
        first = self.counts.nodes
        last = first + nodes
        while self.counts.nodes < last:
            if not self._above and not _left(self._level):
                if not self._backlog:
                    break
                self._base = self._backlog.pop()
                self._level = iter(self._base.nodes)
            if self._explore(deadline, last - self.counts.nodes) or self.clock() >= deadline:
                break
        self.counts.busy_ns += self.clock() - started
        return self.counts.nodes - first

    def _explore(self, deadline: int, nodes: int) -> bool:
        """The hot loop: explores the current base group; says whether the deadline came first."""
        find_solutions = self.capabilities.solutions
        expand: Callable[[NodeT], Any] = self.capabilities.expand
        clock = self.clock
        level = self._level
        above = self._above
        push = above.append
        pop = above.pop
        batch = self.batch
        chance = self._chance
        before = clock()
        deepest = done = inner = sampled = 0
        late = False
        try:
            while not late and done < nodes:
                stop = min(done + batch, nodes)
                # At a place that is drawn: in a regular tree every 512th node may lie at one depth
                sample = done + 1 + int((stop - done) * chance())
                for end in (sample, stop):
                    while done < end:
                        # A `for` over the iterator resumes where the last one broke off, so the
                        # loop can be left for a child level or for a look at the clock and costs no
                        # index
                        for node in level:
                            done += 1
                            if solutions := find_solutions(node):
                                self._report(solutions)
                            if children := expand(node):
                                # Almost every `expand` gives a list or a tuple: two pointer
                                # comparisons instead of a call
                                if (
                                    type(children) is list
                                    or type(children) is tuple
                                    or (children := as_children(children))
                                ):
                                    inner += 1
                                    push(level)
                                    level = iter(children)
                                    if len(above) > deepest:
                                        deepest = len(above)
                                    break
                            elif children is None:
                                raise TypeError(RETURNED_NONE)
                            if done >= end:
                                break
                        else:
                            if not above:
                                return False
                            level = pop()
                    if sampled < sample:
                        # A level that is not begun is that of the last node's children
                        begun = _parts(level)[1] > 0 or not _left(level)
                        self._sample_depth(len(above) - (not begun), done - sampled)
                        sampled = done
                # One look at the clock per batch: 50 ns each would be a tenth of the time of a
                # small node
                now = clock()
                batch = fitted(batch, now - before)
                before = now
                late = now >= deadline
        except (Exception, SystemExit) as error:
            done -= 1  # a node that is given up is not explored
            self._level = level
            self._fail(error, node)
        finally:
            self._level = level
            self.batch = batch
            self._unsampled += max(done - sampled, 0)
            self._count(done, inner, deepest)
        if self._unchecked >= CHECK_EVERY:
            self._sample()
        return late

    def _sample_depth(self, below: int, nodes: int) -> None:
        """Takes this node for all those since the last sample: counting each would take a tenth of
        the time of a small node."""
        depth = self._base.depth + below
        self.depths[depth] = self.depths.get(depth, 0) + nodes + self._unsampled
        self._unsampled = 0

    def _count(self, done: int, inner: int, deepest: int) -> None:
        counts = self.counts
        counts.nodes += done
        counts.leaves += done - inner
        counts.depth = max(counts.depth, self._base.depth + deepest)
        self._unchecked += done

    def _report(self, solutions: Iterable[object]) -> None:
        cost = self._cost
        for solution in solutions:
            self.found.append((solution, None if cost is None else checked_cost(cost(solution))))
            self.improved = True

    def _fail(self, error: BaseException, node: NodeT) -> None:
        """Finds out which method raised, and gives up the subtree or the search.

        The loop does not note which method it calls, which would cost time at every node;
        calling them again, in their order, tells.
        """
        method = "expand"
        try:
            for solution in self.capabilities.solutions(node) or ():
                if self._cost is not None:
                    method = "cost"
                    checked_cost(self._cost(solution))
                    method = "expand"
        except Exception:
            method = "solutions" if method == "expand" else "cost"
        if isinstance(error, NotPlainError):
            raise error
        if self.skip_errors:
            self.counts.skipped += 1
            return
        path = steps(self._path())
        self._step_back()
        raise self._problem_error(method, error, path, node) from error

    def _step_back(self) -> None:
        """Opens the node again that was taken last, so that a last report still holds it."""
        level: Any = self._level
        # `__setstate__` of a list iterator sets its position; the level cannot be exhausted here,
        # for the node that raised came from it
        level.__setstate__(_parts(level)[1] - 1)

    def _sample(self) -> None:
        """Checks the contract on the node that comes next, once in `CHECK_EVERY` nodes."""
        items, consumed = _parts(self._level)
        if consumed < len(items):
            self._unchecked = 0
            self.check_contract(items[consumed], lambda: steps(self._path(ahead=1)))

    def _path(self, ahead: int = 0) -> bytes:
        """The path of the node that was taken last, or of the sibling `ahead` after it."""
        parent, _ = self._branch()
        if not self._above and not self._base.depth:
            return b""
        offset = 0 if self._above else self._base.index
        return parent + step(offset + _parts(self._level)[1] - 1 + ahead)

    def groups(self) -> list[Siblings[NodeT]]:
        """Everything open: the backlog, then the tree being explored, the shallowest first."""
        groups = list(self._backlog)
        path, lengths = self._branch()
        weight, depth, offset = self._base.weight, self._base.depth, self._base.index
        for level, length in zip((*self._above, self._level), lengths, strict=True):
            items, consumed = _parts(level)
            if depth > self._base.depth and items:
                # The base group's weight is each node's own already; every level below divides it
                # again
                weight /= len(items)
            if consumed < len(items):
                groups.append(
                    Siblings(
                        path,
                        length,
                        depth,
                        offset + consumed,
                        items[consumed:],
                        [],
                        NodeStage.FRESH,
                        weight,
                    )
                )
            depth, offset = depth + 1, 0
        return groups

    def _branch(self) -> tuple[bytes, list[int]]:
        """The path to the parent of the current level, and the length of each level's part
        of it."""
        path = bytearray(self._base.parent)
        lengths = [len(path)]
        offset = self._base.index
        at_root = not self._base.depth
        for level in self._above:
            # The root has no step, for its path is empty: see `paths`
            if not at_root and len(path) < LONGEST:
                path += step(offset + _parts(level)[1] - 1)
                if len(path) >= LONGEST:
                    path += ELIDED
            at_root, offset = False, 0
            lengths.append(len(path))
        return bytes(path), lengths

    def snapshot(self) -> list[Bundle]:
        return self.codec.pack(reversed(self.groups()), by_score=False)

    def split(self, pieces: int = 1) -> list[Bundle]:
        retained, published = halves(self.groups())
        self._replace(retained)
        self.counts.published += sum(len(group.nodes) for group in published)
        parts = [published]
        while len(parts) < pieces:
            parts = [half for part in parts for half in halves(part)]
        pack = self.codec.pack
        return [bundle for part in parts for bundle in pack(reversed(part), by_score=False)]

    def drain(self) -> list[Bundle]:
        bundles = self.snapshot()
        self._replace([])
        return bundles

    def _replace(self, groups: list[Siblings[NodeT]]) -> None:
        self._backlog = [group for group in groups if group.nodes]
        self._above = []
        self._level = iter([])


def fitted(batch: int, elapsed: int) -> int:
    """Fits a batch to the time that the last one took: doubled below `SHORT_BATCH_NS`, a
    quarter above `LONG_BATCH_NS`."""
    if elapsed < SHORT_BATCH_NS:
        return min(batch * 2, LARGEST_BATCH)
    return max(batch // 4, 1) if elapsed > LONG_BATCH_NS else batch


def checked_cost(cost: float) -> float:
    """Takes what `cost` gave as a number that compares; `nan` raises."""
    value = float(cost)
    if math.isnan(value):
        raise ValueError("nan is no cost")
    return value


class NotPlainError(TypeError):
    """An `expand` that was not declared `async` gave something to await."""


RETURNED_NONE = "returned None; an iterable of children was expected, an empty one for a leaf"


def as_children(children: Any) -> list[Any]:
    """Takes what `expand` gave as a list; says what is wrong where it cannot be one."""
    if children.__class__ is list:
        return children
    if children is None:
        raise TypeError(RETURNED_NONE)
    if hasattr(children, "__aiter__") or hasattr(children, "__await__"):
        if hasattr(children, "close"):
            children.close()
        raise NotPlainError("returned something to await; declare expand with `async def`")
    try:
        return list(children)
    except TypeError:
        if hasattr(children, "__iter__"):
            raise
        kind = type(children).__qualname__
        raise TypeError(f"returned {kind}; an iterable of children was expected") from None


def _parts(level: Iterator[Any]) -> tuple[list[Any], int]:
    """A list iterator's list and position; an exhausted one has forgotten both, and gives `[],
    0`."""
    state: Any = level.__reduce__()
    return (state[1][0], state[2]) if len(state) == 3 else ([], 0)


def _left(level: Iterator[Any]) -> int:
    return level.__length_hint__()  # type: ignore[attr-defined,no-any-return]  # a list iterator


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
