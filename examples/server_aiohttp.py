"""Searches in an aiohttp application on one pool, cancelled with their clients.

aiohttp cancels a handler whose client has gone only where it is started with
`handler_cancellation=True`; leaving `async with Search` then ends the search:

    8 queens: 92 ways
    the one that hung up: cancelled
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web
from aiosearch import Limits, Pool, Search
from aiosearch.workloads.queens import Queens

POOL = web.AppKey("pool", Pool)
ENDS = web.AppKey("ends", asyncio.Queue[str])


# --8<-- [start:application]
async def pool(app: web.Application) -> AsyncIterator[None]:
    app[ENDS] = asyncio.Queue()
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
        request.app[ENDS].put_nowait(str(search.result.status))
    return web.json_response({"ways": len(result.solutions)})


async def main() -> None:
    app = web.Application()
    app.cleanup_ctx.append(pool)
    app.router.add_get("/queens/{n}", queens)
    runner = web.AppRunner(app, handler_cancellation=True)
    # --8<-- [end:application]
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/queens"
    async with aiohttp.ClientSession() as client:
        async with client.get(f"{url}/8") as response:
            print(f"8 queens: {(await response.json())['ways']} ways")
        await app[ENDS].get()
        try:
            await client.get(f"{url}/20", timeout=aiohttp.ClientTimeout(0.3))
        except TimeoutError:
            print("the one that hung up:", await app[ENDS].get())
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
