"""The z3 referee of the pruning."""
