"""In which order a search explores, and whether it prunes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct

from .errors import AiosearchError
from .problem import AnyProblem, HasBound

Score = Callable[[Any], float]


class Order(Struct, frozen=True):
    """How a worker picks its next node.

    Subclass it for an order of your own: a frozen struct of plain parameters, importable by
    name.
    """

    @property
    def prunes(self) -> bool:
        """Whether subtrees that cannot hold a better solution are left out; needs
        `HasBound` and `HasCost`."""
        return False

    @property
    def greedy(self) -> bool:
        """Whether the lowest score is explored first, wherever it is in the tree."""
        return False

    @property
    def by_level(self) -> bool:
        """Whether a shallower node always comes before a deeper one."""
        return False

    def score(self, problem: AnyProblem) -> Score | None:
        """Gives the function that scores nodes, or None where nodes are not scored."""
        return None


class DepthFirst(Order, frozen=True):
    """Children before siblings, in the order that `expand` gives them."""


class BreadthFirst(Order, frozen=True):
    """Level by level. Memory grows with the width of the tree."""

    @property
    def by_level(self) -> bool:
        return True


class BestFirst(Order, frozen=True):
    """The lowest `priority(node)` first; `bound(node)` where there is no priority."""

    prune: bool = False
    """Leave out subtrees whose `bound` is no better than the best solution found."""

    @property
    def prunes(self) -> bool:
        return self.prune

    @property
    def greedy(self) -> bool:
        return True

    def score(self, problem: AnyProblem) -> Score:
        score: Score | None = getattr(problem, "priority", None) or getattr(problem, "bound", None)
        if score is None:
            raise AiosearchError(
                f"order best-first needs {type(problem).__qualname__} to have a method "
                "priority(node) or bound(node)"
            )
        return score


class BranchAndBound(Order, frozen=True):
    """Depth first, the child of lowest `bound` first, without subtrees that cannot improve the
    best."""

    @property
    def prunes(self) -> bool:
        return True

    def score(self, problem: AnyProblem) -> Score:
        require_bound(problem, "branch-and-bound")
        return cast("HasBound[Any]", problem).bound  # `require_bound` has looked


ORDERS: dict[str, type[Order]] = {
    "best-first": BestFirst,
    "branch-and-bound": BranchAndBound,
    "breadth-first": BreadthFirst,
    "depth-first": DepthFirst,
}
_SHORT = {"best": BestFirst, "bfs": BreadthFirst, "bnb": BranchAndBound, "dfs": DepthFirst}


def find_order(order: str | Order | None, problem: AnyProblem) -> Order:
    """Takes an order by name or as an object; None picks `BranchAndBound` where the problem has
    `bound` and `cost`, else `DepthFirst`."""
    if order is None:
        has_bound = hasattr(problem, "bound") and hasattr(problem, "cost")
        chosen: Order = BranchAndBound() if has_bound else DepthFirst()
    elif isinstance(order, Order):
        chosen = order
    else:
        try:
            chosen = (ORDERS.get(order) or _SHORT[order])()
        except KeyError:
            raise AiosearchError(
                f"unknown order {order!r}; there are {', '.join(ORDERS)}"
            ) from None
    chosen.score(problem)
    if chosen.prunes:
        require_bound(problem, "a pruning order")
    return chosen


def require_bound(problem: AnyProblem, order: str) -> None:
    missing = [name for name in ("bound", "cost") if not hasattr(problem, name)]
    if missing:
        raise AiosearchError(
            f"{order} needs {type(problem).__qualname__} to have "
            + " and ".join(f"a method {name}" for name in missing)
        )
