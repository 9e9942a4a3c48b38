"""Who runs what in a step: an integer program, and several ways to solve it."""
