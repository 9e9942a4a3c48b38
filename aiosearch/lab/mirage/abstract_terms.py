"""The axioms of abstract terms for z3: which are equal, and which is a subterm of which.

A term says what is computed and forgets which elements meet: a matrix product of 2**12 columns is
`(sum 12 (mul X W))`. Sizes of sums are kept as powers of two. The axioms are those that Mirage's
first version gave to z3, but for x = sum(1, x), which nothing here needs. There is no cancelling,
or everything would be a part of everything.

Every axiom names what sets it off, and none of them makes terms without end. So a question
ends, and what is not derived then is no part: z3 says `unknown`, in a millisecond, whatever the
budget.

`("x y", "(add x y)", "x")` in `PARTS` says that x is a part of every sum x + y: SMT-LIB text, its
variables, its trigger. These are the axioms that Mirage's paper and its first version have in
common; what either has besides stands where it is asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...problem import Obligation

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


FUNCTIONS = """\
(declare-sort T 0)
(declare-fun add (T T) T) (declare-fun mul (T T) T) (declare-fun div (T T) T)
(declare-fun exp (T) T) (declare-fun silu (T) T)
(declare-fun rms (Int T) T) (declare-fun sum (Int T) T)
(declare-fun part (T T) Bool) (declare-const target T)
"""
"""The sort of terms and the functions of all tasks, as SMT-LIB."""
_OWN_PARTS = (("x", "(silu x)", "x"), ("i x", "(rms i x)", "x"))


def axioms(inputs: Iterable[str], target: str) -> str:
    """The axioms, and the term `target` that everything is to be a part of."""
    reversed_rules = [(names, after, before) for names, before, after in EQUAL_BOTH_WAYS]
    equal = [*EQUAL, *EQUAL_BOTH_WAYS, *reversed_rules]
    rules = [
        *((names, before, f"(= {before} {after})") for names, before, after in equal),
        *((names, whole, f"(part {part} {whole})") for names, whole, part in (*PARTS, *_OWN_PARTS)),
        *ORDER,
    ]
    text = declarations(inputs) + "".join(axiom_text(*rule) for rule in rules)
    return f"{text}(assert (= target {target}))\n"


def declarations(inputs: Iterable[str]) -> str:
    """Every symbol that a question about `inputs` may use."""
    return FUNCTIONS + "".join(f"(declare-const {name} T)\n" for name in inputs)


def is_part(declared: str, term: str, axioms: str) -> Obligation:
    """Asks whether `term` is a part of the target, under a set of axioms by its name."""
    # Unsatisfiable means that the term is a part. The negation is never proved, as there is always
    # a model in which `part` holds of more.
    goal = f"{declared}(assert (not (part {term} target)))"
    return Obligation(goal, axioms, key=term.encode())
