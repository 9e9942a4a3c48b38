"""Proofs that two programs compute the same real function at every shape.

`prove` reads both programs element by element (`elements`), brings every element to a normal form
(`normal_form`, `arithmetic`, `functions`), and compares (`compare`); large programs are proved in
parts (`cut_points`), and no proof takes more than its `ProofWork`. See docs/why/verdicts.md.
"""

from .compare import Proof, prove
from .rules import Rule
from .work import ProofWork

__all__ = ["Proof", "ProofWork", "Rule", "prove"]
