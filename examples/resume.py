"""A journal: a search that is killed goes on where its last report was, and counts nothing twice.

Starts a search in another process, kills that process (`kill -9`) when some of the tree is behind
it, and resumes here with as many workers as there are cores:

    killed with ...% explored
    resumed with ... nodes explored
    complete: 14,200 solutions, 856,189 nodes, as many as in a search that nobody killed
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from aiosearch import Search
from aiosearch.events import AnyEvent, Progress, SearchStarted
from aiosearch.workloads.queens import Queens

PROBLEM = Queens(12)
NODES = 856_189


async def search(journal: Path) -> None:
    """What the other process does until it is killed."""
    opened = Search(PROBLEM, workers=1, journal=journal, on=tell_progress, progress_seconds=0.1)
    async with opened as search:
        await search.wait()


def tell_progress(event: AnyEvent) -> None:
    if isinstance(event, Progress) and event.explored:
        print(f"{event.explored:.0%}", flush=True)


async def start_and_kill(journal: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, str(journal), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    for _ in range(3):
        share = await process.stdout.readline()
    process.kill()  # its workers die with it
    await process.communicate()
    print(f"killed with {share.decode().strip()} explored")


def tell(event: AnyEvent) -> None:
    if isinstance(event, SearchStarted):
        print(f"resumed with {event.nodes:,} nodes explored")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "queens.journal"
        await start_and_kill(journal)
        async with Search(PROBLEM, journal=journal, resume=True, on=tell) as search:
            result = await search.wait()
    nodes = result.statistics.nodes
    same = "as many as in a search that nobody killed" if nodes == NODES else "not all"
    print(f"{result.status}: {len(result.solutions):,} solutions, {nodes:,} nodes, {same}")


if __name__ == "__main__":
    asyncio.run(search(Path(sys.argv[1])) if len(sys.argv) > 1 else main())
