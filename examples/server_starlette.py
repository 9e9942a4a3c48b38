"""Searches in a Starlette application under uvicorn, FastAPI's server, on one pool.

Starlette does not cancel a handler whose client has gone: it sends `http.disconnect`, which the
handler has to read. So a watcher waits for that beside the search, and stops it:

    8 queens: 92 ways, complete
    the one that hung up: cancelled, the client has gone

`uvicorn --app-dir examples server_starlette:app` serves until Ctrl-C.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from logging.handlers import QueueHandler

import anyio
import uvicorn
from aiosearch import Limits, Pool, Search
from aiosearch.workloads.queens import Queens
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

LOG = logging.getLogger(__name__)


# --8<-- [start:application]
@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with Pool(2) as pool:  # once, when the program starts: not once for each request
        app.state.pool = pool
        yield


async def queens(request: Request) -> JSONResponse:
    pool, limits = request.app.state.pool, Limits(seconds=10)
    problem = Queens(request.path_params["n"])
    async with (
        Search(problem, pool=pool, limits=limits) as search,
        anyio.create_task_group() as group,
    ):
        group.start_soon(stop_when_gone, request, search)
        result = await search.wait()
        group.cancel_scope.cancel()
    LOG.info("%s, %s", result.status, result.reason)
    # Where a limit ended the search, these are the ways until then: the client has to know.
    return JSONResponse({"ways": len(result.solutions), "status": result.status})


async def stop_when_gone(
    request: Request, search: Search[tuple[int, ...], tuple[int, ...]]
) -> None:
    """Stops a search whose client hangs up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    search.stop("the client has gone")


app = Starlette(routes=[Route("/queens/{n:int}", queens)], lifespan=lifespan)
# --8<-- [end:application]


async def ask(port: int, n: int) -> dict[str, object]:
    """Is a client."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /queens/{n} HTTP/1.0\r\nHost: here\r\n\r\n".encode())
    response = await reader.read()
    writer.close()
    return dict(json.loads(response.partition(b"\r\n\r\n")[2]))


async def ask_and_leave(port: int) -> None:
    """Is a client without patience."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /queens/20 HTTP/1.0\r\nHost: here\r\n\r\n")
    await asyncio.sleep(0.3)
    writer.close()


async def main() -> None:
    ends = asyncio.Queue[logging.LogRecord]()
    LOG.addHandler(QueueHandler(ends))
    LOG.setLevel(logging.INFO)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  # uvicorn has no event that says so
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    print("8 queens: {ways} ways, {status}".format(**await ask(port, 8)))
    await ends.get()
    await ask_and_leave(port)
    print("the one that hung up:", (await ends.get()).getMessage())
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
