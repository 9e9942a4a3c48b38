"""Every test leaves the verdict cache of the person who runs it alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    """What users see is tried on both event loops; the rest does not depend on them."""
    if item.path.name in ("test_search.py", "test_pool.py"):
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}
