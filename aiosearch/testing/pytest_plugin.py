"""The fixture `assert_equal` for pytest; nothing is loaded before a test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="session")
def assert_equal() -> Callable[..., object]:
    """Asserts that one function may stand in for another: `aiosearch.testing.assert_equal`."""
    from .equality import assert_equal

    return assert_equal
