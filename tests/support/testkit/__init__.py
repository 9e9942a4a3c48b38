"""Helpers of the tests, imported as `testkit` with `tests/support` on the import path."""
