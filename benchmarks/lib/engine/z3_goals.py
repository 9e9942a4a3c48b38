"""Questions for z3: what superoptimizing P1 to P25 asks, and equalities over preloaded axioms."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import TYPE_CHECKING

from aiosearch import Obligation
from aiosearch.workloads.superopt import Superopt

if TYPE_CHECKING:
    from collections.abc import Iterator

HARD = ("P20", "P25")
"""A division and a long product: most of their goals use up the budget."""
MOST_NODES = 10_000

AXIOMS = """
(declare-sort T 0)
(declare-fun add (T T) T) (declare-fun mul (T T) T) (declare-fun div (T T) T)
(declare-fun exp (T) T) (declare-fun sqrt (T) T) (declare-fun sum (Int T) T)
(assert (forall ((x T) (y T)) (! (= (add x y) (add y x)) :pattern ((add x y)))))
(assert (forall ((x T) (y T)) (! (= (mul x y) (mul y x)) :pattern ((mul x y)))))
(assert (forall ((x T) (y T) (z T))
  (! (= (mul x (add y z)) (add (mul x y) (mul x z))) :pattern ((mul x (add y z))))))
(assert (forall ((x T) (y T) (z T))
  (! (= (div (add x y) z) (add (div x z) (div y z))) :pattern ((div (add x y) z)))))
(assert (forall ((x T) (y T) (z T))
  (! (= (div (mul x y) z) (mul x (div y z))) :pattern ((div (mul x y) z)))))
(assert (forall ((x T) (y T))
  (! (= (exp (add x y)) (mul (exp x) (exp y))) :pattern ((exp (add x y))))))
(assert (forall ((x T) (y T))
  (! (= (sqrt (mul x y)) (mul (sqrt x) (sqrt y))) :pattern ((sqrt (mul x y))))))
(assert (forall ((n Int) (x T) (y T))
  (! (= (sum n (add x y)) (add (sum n x) (sum n y))) :pattern ((sum n (add x y))))))
(assert (forall ((n Int) (m Int) (x T))
  (! (= (sum n (sum m x)) (sum (* n m) x)) :pattern ((sum n (sum m x))))))
"""
_SYMBOLS = "".join(line for line in AXIOMS.splitlines() if line.startswith("(declare"))


def hackers_delight(each: int) -> dict[str, list[Obligation]]:
    """Gives about so many goals of each task, half of them from a search with four tests.

    Four random tests leave mostly programs that are right; one, or none, hardly any.
    """
    return {f"P{number}": _goals(f"P{number}", each) for number in range(1, 26)}


def _goals(task: str, each: int) -> list[Obligation]:
    random = Random(task)
    found: dict[bytes, Obligation] = {}
    for tests, length, part in ((4, 4, 2), (2, 3, 6), (1, 3, 6), (0, 3, 6)):
        goals = list(islice(_asked(Superopt(task, length, 32, tests=tests)), 20 * each))
        share = min(max(each // part, 1), len(goals))
        found |= {goal.key: goal for goal in random.sample(goals, share)}
    return list(found.values())


def _asked(problem: Superopt) -> Iterator[Obligation]:
    """The questions of a depth-first search that gives up after some nodes."""
    waiting = [problem.root()]
    for _ in range(MOST_NODES):
        if not waiting:
            return
        node = waiting.pop()
        if goal := problem.obligation(node):
            yield goal
        waiting.extend(problem.expand(node))


def equalities(count: int) -> list[Obligation]:
    """Distinct goals that follow from AXIOMS: x (y + z) = z x + y x under a few functions."""
    return [_equality(number) for number in range(count)]


def _equality(number: int) -> Obligation:
    x, y, z = (f"{name}{number}" for name in "xyz")
    constants = "".join(f"(declare-const {name} T)" for name in (x, y, z))
    left = f"(mul {x} (add {y} {z}))"
    right = f"(add (mul {z} {x}) (mul {y} {x}))"
    wrap = ("(exp {0})", "(sum 4 {0})", "(div {0} {1})", "(sqrt {0})")[number % 4]
    goal = f"(assert (not (= {wrap.format(left, x)} {wrap.format(right, x)})))"
    return Obligation(_SYMBOLS + constants + goal, axioms="algebra")
