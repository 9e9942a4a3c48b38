"""Evaluation of tensor programs in any `Algebra`."""
