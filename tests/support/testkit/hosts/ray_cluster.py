"""Searches on a Ray cluster whose nodes are all on this machine."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiosearch_ray import RayListener

from aiosearch import Pool


@asynccontextmanager
async def pool(hosts: int = 2, keep: str | None = None) -> AsyncIterator[tuple[Pool, RayListener]]:
    """Served by so many host actors, and nobody else."""
    listener = RayListener(keep=keep)
    async with Pool(cache=None, listener=listener) as opened:
        await until(lambda: len(machines(opened)) == hosts)
        yield opened, listener


def machines(pool: Pool) -> list[Any]:
    assert pool.machines is not None
    found: list[Any] = json.loads(pool.machines.state())["machines"]
    return found


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.02)


def actors() -> list[int]:
    """The processes of this cluster's host actors, and of no other cluster's."""
    ours = f"RAY_TMPDIR={os.environ['RAY_TMPDIR']}"
    return [
        int(folder.name)
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit()
        and _told(folder / "cmdline").startswith("ray::HostActor")
        and ours in _told(folder / "environ").split("\0")
    ]


def _told(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:  # it has ended, or is somebody else's
        return ""
