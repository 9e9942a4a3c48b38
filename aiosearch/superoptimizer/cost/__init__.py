"""The cost model of the superoptimizer, and the choice of sizes by it."""
