"""Searches in an aiohttp application on one pool, cancelled with their clients.

aiohttp cancels a handler whose client has gone only where it is started with
`handler_cancellation=True`; leaving `async with Search` then ends the search:

    8 queens: 92 ways, complete
    the one that hung up: cancelled

Run with `serve` behind its name, it serves on port 8080 until Ctrl-C.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from logging.handlers import QueueHandler

import aiohttp
from aiohttp import web
from aiosearch import Limits, Pool, Search
from aiosearch.workloads.queens import Queens

POOL = web.AppKey("pool", Pool)
LOG = logging.getLogger(__name__)


# --8<-- [start:application]
async def pool(app: web.Application) -> AsyncIterator[None]:
    async with Pool(2) as opened:  # once, when the program starts: not once for each request
        app[POOL] = opened
        yield


async def queens(request: web.Request) -> web.Response:
    problem = Queens(int(request.match_info["n"]))
    search = Search(problem, pool=request.app[POOL], limits=Limits(seconds=10))
    try:
        async with search:
            result = await search.wait()
    finally:
        LOG.info("%s", search.result.status)
    # Where a limit ended the search, these are the ways until then: the client has to know.
    return web.json_response({"ways": len(result.solutions), "status": result.status})


def application() -> web.Application:
    app = web.Application()
    app.cleanup_ctx.append(pool)
    app.router.add_get(r"/queens/{n:\d+}", queens)
    return app


def serve() -> None:
    web.run_app(application(), host="127.0.0.1", port=8080, handler_cancellation=True)


# --8<-- [end:application]


async def main() -> None:
    ends = asyncio.Queue[logging.LogRecord]()
    LOG.addHandler(QueueHandler(ends))
    LOG.setLevel(logging.INFO)
    runner = web.AppRunner(application(), handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/queens"
    async with aiohttp.ClientSession() as client:
        async with client.get(f"{url}/8") as response:
            print("8 queens: {ways} ways, {status}".format(**await response.json()))
        await ends.get()
        try:
            await client.get(f"{url}/20", timeout=aiohttp.ClientTimeout(0.3))
        except TimeoutError:
            print("the one that hung up:", (await ends.get()).getMessage())
    await runner.cleanup()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        asyncio.run(main())
