"""The algebra of the superoptimizer: normal forms of tensors, and which of them are subterms of
which.
"""
