"""Exact arithmetic over a random prime field, on which `compare_fields` evaluates programs."""
