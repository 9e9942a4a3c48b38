"""Static analysis and rewriting of tensor programs.

Cost, overflow, symbolic sizes, substitution.
"""
