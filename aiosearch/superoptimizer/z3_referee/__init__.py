"""The z3 referee of the subterm test."""
