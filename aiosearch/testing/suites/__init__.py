"""Conformance suites: what every strategy and every executor has to pass."""
