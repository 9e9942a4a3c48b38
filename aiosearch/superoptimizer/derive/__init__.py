"""The derivation graph of the values on the way to a reference, and lower bounds on it."""
