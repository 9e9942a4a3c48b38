"""A child that cannot be imported."""

raise RuntimeError("what this needs is broken")
