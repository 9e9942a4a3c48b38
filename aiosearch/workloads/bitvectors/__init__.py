"""Bit-vector programs: what the `Superopt` workload searches."""
