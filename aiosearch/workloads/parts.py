"""What z3 is told of abstract terms: which are equal, and which is a part of which.

A term says what is computed and forgets which elements meet: a matrix product is a sum of products.
Sizes of sums are kept as powers of two. The axioms are those that Mirage's first version gave to
z3, but for x = sum(1, x), which nothing here needs. There is no cancelling, or everything would be
a part of everything.

Every axiom names what sets it off, and none of them makes terms without end. So a question ends,
and what is not derived then is no part: z3 says `unknown`, in a millisecond, whatever the budget.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..problem import Obligation

FUNCTIONS = """\
(declare-sort T 0)
(declare-fun add (T T) T) (declare-fun mul (T T) T) (declare-fun div (T T) T)
(declare-fun exp (T) T) (declare-fun silu (T) T)
(declare-fun rms (Int T) T) (declare-fun sum (Int T) T)
(declare-fun part (T T) Bool) (declare-const target T)
"""
_EQUAL_ONE_WAY = (
    ("x y", "(add x y)", "(add y x)"),
    ("x y", "(mul x y)", "(mul y x)"),
    ("x y z", "(add (add x y) z)", "(add x (add y z))"),
    ("x y z", "(mul (mul x y) z)", "(mul x (mul y z))"),
    ("i j x", "(sum i (sum j x))", "(sum (+ i j) x)"),
)
_EQUAL = (
    ("x y z", "(add (mul x z) (mul y z))", "(mul (add x y) z)"),
    ("x y z", "(add (div x z) (div y z))", "(div (add x y) z)"),
    ("x y z", "(mul x (div y z))", "(div (mul x y) z)"),
    ("i x y", "(sum i (add x y))", "(add (sum i x) (sum i y))"),
    ("i x y", "(sum i (mul x y))", "(mul (sum i x) y)"),
    ("i x y", "(sum i (div x y))", "(div (sum i x) y)"),
)
_PARTS = (
    ("x y", "(add x y)", "x"),
    ("x y", "(mul x y)", "x"),
    ("x y", "(div x y)", "x"),
    ("x y", "(div x y)", "y"),
    ("x", "(exp x)", "x"),
    ("x", "(silu x)", "x"),
    ("i x", "(rms i x)", "x"),
    ("i x", "(sum i x)", "x"),
)
_ORDER = (
    ("x", "(part x x)", "(part x x)"),
    (
        "x y",
        "(part x y) (part y target)",
        "(=> (and (part x y) (part y target)) (part x target))",
    ),
    ("i j x", "(sum i x) (sum j x)", "(=> (<= i j) (part (sum i x) (sum j x)))"),
)


def axioms(inputs: Iterable[str], target: str) -> str:
    """The axioms, and the term that everything is to be a part of."""
    both = [*_EQUAL, *((names, after, before) for names, before, after in _EQUAL)]
    rules = [
        *((names, before, f"(= {before} {after})") for names, before, after in _EQUAL_ONE_WAY),
        *((names, before, f"(= {before} {after})") for names, before, after in both),
        *((names, whole, f"(part {part} {whole})") for names, whole, part in _PARTS),
        *_ORDER,
    ]
    text = declarations(inputs) + "".join(_always(*rule) for rule in rules)
    return f"{text}(assert (= target {target}))\n"


def declarations(inputs: Iterable[str]) -> str:
    """Every symbol that a question may use."""
    return FUNCTIONS + "".join(f"(declare-const {name} T)\n" for name in inputs)


def is_part(declared: str, term: str, axioms: str) -> Obligation:
    """Asks whether a term is a part of the target, under a set of axioms by its name."""
    goal = f"{declared}(assert (not (part {term} target)))"
    return Obligation(goal, axioms, key=term.encode())


def _always(names: str, trigger: str, body: str) -> str:
    bound = " ".join(f"({name} {'Int' if name in 'ij' else 'T'})" for name in names.split())
    return f"(assert (forall ({bound}) (! {body} :pattern ({trigger}))))\n"
