"""What a user writes: a `Problem`, and the `Obligation`s that it asks to have proved."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Iterable
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

NodeT = TypeVar("NodeT")
SolutionT = TypeVar("SolutionT", covariant=True)
_NodeT = TypeVar("_NodeT", contravariant=True)
_SolutionT = TypeVar("_SolutionT", contravariant=True)

Expansion: TypeAlias = Iterable[NodeT] | AsyncIterable[NodeT] | Awaitable[Iterable[NodeT]]
"""What `Problem.expand` may give: children, an asynchronous iterable of them, or a promise."""
Key: TypeAlias = bytes | str | int | tuple[object, ...]
"""What `HasKey.key` may give; keys of different types never equal each other."""

LANES = 32
"""Asynchronous expansions under way at once in one process, where a problem has no `lanes`."""


class Obligation(Struct, frozen=True):
    """A question to z3 whose verdict decides whether a subtree lives.

    `query` is SMT-LIB text whose assertions are unsatisfiable exactly when the obligation holds
    (assert the negated goal). It declares every symbol it uses, also those of its axioms.
    unsat is `proved` and the subtree lives; sat is `refuted` and it is dropped; anything else is
    `unknown` and the search's `on_unknown` decides.
    """

    query: str
    """SMT-LIB declarations and assertions; no `(check-sat)`."""
    axioms: str = ""
    """The name of a set in the problem's `axioms`, preloaded once in each z3 process."""
    logic: str = ""
    """An SMT-LIB logic such as `QF_BV` for a specialised solver; empty for the general one."""
    rlimit: int = 0
    """z3's deterministic resource limit for this question; 0 takes the service's default."""
    key: bytes = b""
    """The author's own canonical key. Equal keys must mean equivalent questions."""


class Problem(Protocol[NodeT, SolutionT]):
    """A tree to search: three methods, and optional ones that the engine looks for by name.

    Nodes and solutions are values that msgspec can encode; their types are read from the
    annotations of `root` and `solutions`. `expand` must be repeatable: the same node always gives
    the same children in the same order. It may be plain or `async`, and give any finite iterable.

    Optional methods:

    - `priority(node) -> float`: best-first explores the lowest first.
    - `bound(node) -> float`: a lower bound on the cost of every solution in the node's subtree.
    - `cost(solution) -> float`: what is minimised; without it every new solution is an improvement.
    - `key(node) -> bytes | str | int | tuple`: nodes with equal keys have equal subtrees (whatever
      budget remains included), and one of them is explored.
    - `obligation(node) -> Obligation | None`: a z3 query that decides whether the subtree lives.

    Optional attributes:

    - `axioms: Mapping[str, str]`: named SMT-LIB axiom sets for obligations.
    - `lanes: int`: how many asynchronous `expand`s may be under way at once in one process (32).
    """

    def root(self) -> NodeT:
        """Gives the node that the search starts from."""
        ...

    def expand(self, node: NodeT) -> Expansion[NodeT]:
        """Gives the node's children, always the same ones in the same order."""
        ...

    def solutions(self, node: NodeT) -> Iterable[SolutionT]:
        """Gives the solutions that this very node stands for, often none."""
        ...


AnyProblem: TypeAlias = Problem[Any, Any]
"""A problem whose nodes and solutions are nobody's business here, such as in a worker."""


class HasPriority(Protocol[_NodeT]):
    """A problem that says which nodes look promising; `BestFirst` asks it."""

    def priority(self, node: _NodeT) -> float:
        """Gives the node's score: `BestFirst` explores the lowest first."""
        ...


class HasBound(Protocol[_NodeT]):
    """A problem whose subtrees can be left out when they cannot improve the best solution.

    `BranchAndBound` needs it together with `HasCost`.
    """

    def bound(self, node: _NodeT) -> float:
        """Gives a lower bound on the `cost` of every solution in the node's subtree."""
        ...


class HasCost(Protocol[_SolutionT]):
    """A problem whose solutions differ in how good they are; the lowest `cost` is the best."""

    def cost(self, solution: _SolutionT) -> float:
        """Gives what is minimised; never `nan`."""
        ...


class HasKey(Protocol[_NodeT]):
    """A problem in which one subtree may be reached over several paths, such as a state graph."""

    def key(self, node: _NodeT) -> Key:
        """Gives the node's identity: nodes with equal keys have equal subtrees."""
        ...


class HasObligation(Protocol[_NodeT]):
    """A problem in which z3 decides which subtrees live; see `Obligation`."""

    def obligation(self, node: _NodeT) -> Obligation | None:
        """Gives the question on which the node's subtree depends, or None where there is none."""
        ...
