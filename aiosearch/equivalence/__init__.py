"""Are two tensor programs the same: fields, proofs, floats; counterexamples."""
