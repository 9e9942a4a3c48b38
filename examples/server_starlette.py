"""Searches in a Starlette application under uvicorn, FastAPI's server, on one pool.

Starlette does not cancel a handler whose client has gone: it sends `http.disconnect`, which the
handler has to read. So a watcher waits for that beside the search, and stops it:

    8 queens: 92 ways
    the one that hung up: cancelled, the client has gone
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import uvicorn
from aiosearch import Limits, Pool, Search
from aiosearch.workloads.queens import Queens
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

Board = tuple[int, ...]


# --8<-- [start:application]
@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with Pool(2) as pool:  # once, when the program starts: not once for each request
        app.state.pool = pool
        app.state.ends = asyncio.Queue[str]()
        yield


async def queens(request: Request) -> JSONResponse:
    state, limits = request.app.state, Limits(seconds=10)
    problem = Queens(request.path_params["n"])
    async with (
        Search(problem, pool=state.pool, limits=limits) as search,
        anyio.create_task_group() as group,
    ):
        group.start_soon(stop_when_gone, request, search)
        result = await search.wait()
        group.cancel_scope.cancel()
    state.ends.put_nowait(f"{result.status}, {result.reason}")
    return JSONResponse({"ways": len(result.solutions)})


async def stop_when_gone(
    request: Request, search: Search[tuple[int, ...], tuple[int, ...]]
) -> None:
    """Stops a search whose client hangs up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    search.stop("the client has gone")


app = Starlette(routes=[Route("/queens/{n:int}", queens)], lifespan=lifespan)
# --8<-- [end:application]


async def ask(port: int, n: int) -> dict[str, int]:
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
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  # uvicorn has no event that says so
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    print(f"8 queens: {(await ask(port, 8))['ways']} ways")
    await app.state.ends.get()
    await ask_and_leave(port)
    print("the one that hung up:", await app.state.ends.get())
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
