"""Outcomes: what is remembered of an optimization, and what is reported of it."""
