"""Axioms of terms as SMT-LIB text, each with its variables and its trigger.

They are what Mirage's paper and its first version have in common; what either has besides
stands where it is asked. `("x y", "(add x y)", "x")` in `PARTS` says that x is a part of every
sum x + y.
"""

from __future__ import annotations

EQUAL = (
    ("x y", "(add x y)", "(add y x)"),
    ("x y", "(mul x y)", "(mul y x)"),
    ("x y z", "(add (add x y) z)", "(add x (add y z))"),
    ("x y z", "(mul (mul x y) z)", "(mul x (mul y z))"),
    ("i j x", "(sum i (sum j x))", "(sum (+ i j) x)"),
)
"""Variables, a left side that is the trigger, and what it equals."""
EQUAL_BOTH_WAYS = (
    ("x y z", "(add (mul x z) (mul y z))", "(mul (add x y) z)"),
    ("x y z", "(add (div x z) (div y z))", "(div (add x y) z)"),
    ("x y z", "(mul x (div y z))", "(div (mul x y) z)"),
    ("i x y", "(sum i (add x y))", "(add (sum i x) (sum i y))"),
    ("i x y", "(sum i (mul x y))", "(mul (sum i x) y)"),
    ("i x y", "(sum i (div x y))", "(div (sum i x) y)"),
)
"""Equalities that are instantiated by either side."""
PARTS = (
    ("x y", "(add x y)", "x"),
    ("x y", "(mul x y)", "x"),
    ("x y", "(div x y)", "x"),
    ("x y", "(div x y)", "y"),
    ("x", "(exp x)", "x"),
    ("i x", "(sum i x)", "x"),
)
"""Variables, a term, and what is a part of it."""
ORDER = (
    ("x", "(part x x)", "(part x x)"),
    (
        "x y",
        "(part x y) (part y target)",
        "(=> (and (part x y) (part y target)) (part x target))",
    ),
    ("i j x", "(sum i x) (sum j x)", "(=> (<= i j) (part (sum i x) (sum j x)))"),
)
"""Axioms of order: being a part is reflexive, and transitive towards the target; a smaller sum is a
part of a larger."""


def axiom_text(names: str, trigger: str, body: str) -> str:
    """An axiom as SMT-LIB; `i` and `j` are integers, all other variables are terms."""
    bound = " ".join(f"({name} {'Int' if name in 'ij' else 'T'})" for name in names.split())
    return f"(assert (forall ({bound}) (! {body} :pattern ({trigger}))))\n"
