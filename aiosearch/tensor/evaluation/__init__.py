"""Evaluation of tensor programs in any `Algebra`.

Arrays, field elements, labels, symbolic terms.
"""
