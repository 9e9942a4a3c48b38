"""The processes that compile and time candidates, and may die of them."""
