"""Proofs that two programs compute the same real function at every shape."""

from .compare import Proof, prove
from .rules import Rule

__all__ = ["Proof", "Rule", "prove"]
