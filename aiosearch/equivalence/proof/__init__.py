"""Proofs that two programs compute the same real function at every shape.

`prove` reads both programs element by element (`elements`), brings every element to a normal form
(`normal_form`, `arithmetic`, `functions`), and compares (`compare`). See docs/why/verdicts.md.
"""

from .compare import Proof, prove
from .rules import Rule

__all__ = ["Proof", "Rule", "prove"]
