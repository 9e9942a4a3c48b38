"""JAX programs whose rows do not depend on each other, run block by block and on all cores."""
