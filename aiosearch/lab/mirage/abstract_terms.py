"""The axioms of abstract terms for z3: which are equal, and which is a subterm of which.

A term says what is computed and forgets which elements meet: a matrix product of 2**12 columns is
`(sum 12 (mul X W))`. Sizes of sums are kept as powers of two. The axioms are those that Mirage's
first version gave to z3, but for x = sum(1, x), which nothing here needs. There is no cancelling,
or everything would be a part of everything.

Every axiom names what sets it off, and none of them makes terms without end. So a question
ends, and what is not derived then is no part: z3 says `unknown`, in a millisecond, whatever the
budget.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...problem import Obligation
from .axioms import EQUAL, EQUAL_BOTH_WAYS, ORDER, PARTS, axiom_text

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
