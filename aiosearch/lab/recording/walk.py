"""The walk that is recorded: depth first, by one, with a look at the clock around each node.

The problem: a node may take a microsecond, and another process may take the processor away for
milliseconds in the middle of it. Over a stretch of nodes the time on the clock and the CPU time of
this thread are compared; what is missing was taken by others, and `_pause` takes it off the nodes
that seemed to take longest. What a look at the clock itself takes is subtracted from every node.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from statistics import median
from typing import Any, TypeAlias

from ...checks.questions import digest
from ...checks.verdict import Status, Verdict
from ...engine.explore.capabilities import Capabilities
from ...engine.explore.claims import Claim, LocalClaims, key_digest
from ...engine.explore.explorer import as_children, checked_cost
from ...engine.explore.heap_explorer import NO_BOUND
from ...errors import ProblemError
from ...orders import Order
from ...problem import AnyProblem, Obligation
from .format import SOLVES, Columns, NodeKind

clock = time.perf_counter_ns

PULSE, PULSE_NS = 4096, 50_000_000
"""Nodes and nanoseconds between two moments at which a walk can be stopped."""
STRUCK_NS = 100_000
"""Nanoseconds: whoever takes the processor away keeps it for longer."""

Walking: TypeAlias = Generator[Obligation | None, Verdict | None, None]
"""Gives questions, and is sent their verdicts; gives None now and then, to be stopped there."""

_END = (NO_BOUND, object())


class Walk:
    """Walks a problem's tree and writes into `columns` what it meets."""

    def __init__(
        self,
        problem: AnyProblem,
        order: Order,
        unknown_lives: bool,
        z3: str,
        most: float = float("inf"),
    ) -> None:
        self.columns = Columns()
        """Where the walk writes; others may take it, and put empty `Columns` in its place."""
        self.nodes = self.questions = 0
        self.complete = False
        """Whether the walk came to the tree's end, and not only to as many nodes as it may."""
        self._most = most
        self.spent = self.checked = 0
        self.statuses: dict[bytes, Status] = {}
        self._numbers: dict[bytes, int] = {}
        self._problem = problem
        self._unknown_lives = unknown_lives
        self.z3 = z3
        self._prunes = order.prunes
        capabilities = Capabilities.of(problem)
        self._bound = capabilities.bound
        self._cost = capabilities.cost
        self._key = capabilities.key
        self._obligation = capabilities.obligation
        self._axioms = capabilities.axioms
        self._claims = LocalClaims()
        self._best = float("inf")
        self._method = "root"
        self._look = _clock_cost()
        self._stretch = self._now()

    def steps(self) -> Walking:
        """Walks the whole tree, or `most` nodes of it; see `Walking`."""
        try:
            yield from self._through()
        except ProblemError:
            raise
        except Exception as error:
            name = type(self._problem).__qualname__
            reason = f"{type(error).__name__}: {error}"
            raise ProblemError(name, self._method, reason, None) from error

    def _through(self) -> Walking:
        above: list[Iterator[tuple[float, Any]]] = [iter([(NO_BOUND, self._problem.root())])]
        met = 0
        while above:
            bound, node = next(above[-1], _END)
            if node is _END[1]:
                above.pop()
                continue
            if self.nodes >= self._most:
                self._pause()
                return
            children = yield from self._visit(node, bound)
            if children:
                above.append(iter(children))
            met += 1
            # By count and by time: a million fast nodes and one slow node both have to let the
            # caller in
            if met % PULSE == 0 or clock() > self._stretch[0] + PULSE_NS:
                self._pause()
                yield None
                self._stretch = self._now()
        self._pause()
        self.complete = True

    def _visit(
        self, node: Any, bound: float
    ) -> Generator[Obligation | None, Verdict | None, Sequence[tuple[float, Any]]]:
        started = clock()
        kind = NodeKind.EXPLORED
        if not self._admitted(node, bound):
            self._write(0, NodeKind.DROPPED, clock() - started)
            return []
        if self._obligation is not None:
            self._method = "obligation"
            obligation = self._obligation(node)
            if obligation is not None:
                name = self.digest(obligation)
                # The clock stops while z3 thinks: its time is a column of its own
                before = clock() - started
                kind = yield from self._judged(name, obligation)
                started = clock() - before
                if kind is NodeKind.REFUTED:
                    self._write(0, kind, clock() - started)
                    return []
        return self._grown(node, kind, started)

    def _grown(self, node: Any, kind: NodeKind, started: int) -> Sequence[tuple[float, Any]]:
        self._method = "solutions"
        solutions = tuple(self._problem.solutions(node) or ())
        if solutions and self._cost is not None:
            self._method = "cost"
            # The walk prunes as a worker would, so that the recorded tree is the one that a search
            # explores
            self._best = min(
                self._best, min(checked_cost(self._cost(solution)) for solution in solutions)
            )
        self._method = "expand"
        children = self._ordered(as_children(self._problem.expand(node)))
        spent = clock() - started
        self.nodes += 1
        self._write(len(children), kind | (SOLVES if solutions else 0), spent)
        return children

    def _ordered(self, children: list[Any]) -> Sequence[tuple[float, Any]]:
        """Puts the most promising child first, where the order prunes."""
        if not self._prunes:
            return [(NO_BOUND, child) for child in children]
        self._method = "bound"
        assert self._bound is not None  # or the order would not prune
        bound = self._bound
        scored = [(float(bound(child)), child) for child in children]
        return sorted(scored, key=itemgetter(0))

    def _admitted(self, node: Any, bound: float) -> bool:
        """Whether neither a `bound` nor a `key` keeps the node out."""
        if self._prunes and bound >= self._best:
            return False
        if self._key is None:
            return True
        self._method = "key"
        return self._claims.claim(key_digest(self._key(node)), bound) is not Claim.DUPLICATE

    def _judged(
        self, name: bytes, obligation: Obligation
    ) -> Generator[Obligation | None, Verdict | None, NodeKind]:
        status = self.statuses.get(name)
        if status is None:
            self._pause()
            verdict = yield obligation
            self._stretch = self._now()
            assert verdict is not None
            status = self.statuses[name] = verdict.status
            self._numbers[name] = self.questions
            self.questions += 1
            self.checked += int(verdict.seconds * 1e9)
            self.columns.checks.append(int(verdict.seconds * 1e9))
        self.columns.questions.append(self._numbers[name])
        lives = status is Status.PROVED or (status is Status.UNKNOWN and self._unknown_lives)
        return NodeKind.ALIVE if lives else NodeKind.REFUTED

    def digest(self, obligation: Obligation) -> bytes:
        axioms = self._axioms[obligation.axioms] if obligation.axioms else ""
        return digest(obligation, axioms, self.z3)

    def _write(self, children: int, kind: int, spent: int) -> None:
        spent = max(spent - self._look, 0)
        self.spent += spent
        self.columns.children.append(children)
        self.columns.kinds.append(kind)
        self.columns.spent.append(spent)

    def _now(self) -> tuple[int, int, int]:
        """Where a stretch of walking begins: on the `clock`, in CPU time, and among the nodes."""
        return clock(), time.thread_time_ns(), len(self.columns.spent)

    def _pause(self) -> None:
        """Takes the time for which others had the processor off the nodes that it struck:
        those that seemed to take longest."""
        began, cpu, first = self._stretch
        away = clock() - began - (time.thread_time_ns() - cpu)
        spent = self.columns.spent
        nodes = range(first, len(spent))
        while away > STRUCK_NS and nodes:
            longest = max(nodes, key=spent.__getitem__)
            if spent[longest] < STRUCK_NS:
                return
            least = min(spent[longest], away)
            spent[longest] -= least
            self.spent -= least
            away -= least


def _clock_cost() -> int:
    """Nanoseconds that a look at the `clock` takes, which is in every figure."""
    looks = [clock() for _ in range(1001)]
    return round(median(after - before for before, after in pairwise(looks)))
