from __future__ import annotations

from aiosearch import checks


def test_exports_are_sorted_and_there():
    """Every name in `__all__` has a home, and readers find it by the alphabet."""
    assert checks.__all__ == sorted(checks.__all__)
    for name in checks.__all__:
        assert getattr(checks, name) is not None
