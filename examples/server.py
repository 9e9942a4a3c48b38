"""A web server with one pool: every request is a search, and all of them share two workers.

Plain asyncio, no framework. The server answers `GET /queens/8`, gives each search five seconds,
and cancels the search of a client that hangs up. To show it, twenty clients ask at once and one
asks for too much and leaves:

    20 clients were answered: 4 queens in 2 ways, 5 in 10, 6 in 4, 7 in 40, 8 in 92
    the one that hung up: cancelled
    worker processes in use: 2, the same ones before and after
"""

from __future__ import annotations

import asyncio
import json

from aiosearch import Limits, Pool, Search
from aiosearch.workloads.queens import Queens


class Server:
    """Answers requests with searches on a pool that it is given."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.hung_up: asyncio.Queue[str] = asyncio.Queue()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection; the search ends when the client goes away."""
        request = await reader.readuntil(b"\r\n\r\n")
        path = request.split()[1].decode()
        answer = asyncio.create_task(self.answer(int(path.removeprefix("/queens/")), writer))
        client_left = asyncio.create_task(reader.read())
        await asyncio.wait({answer, client_left}, return_when=asyncio.FIRST_COMPLETED)
        answer.cancel()
        client_left.cancel()
        await asyncio.gather(answer, client_left, return_exceptions=True)
        writer.close()

    async def answer(self, n: int, writer: asyncio.StreamWriter) -> None:
        search = Search(Queens(n), pool=self.pool, limits=Limits(seconds=5))
        try:
            async with search:
                result = await search.wait()
        except asyncio.CancelledError:
            self.hung_up.put_nowait(search.result.status)
            raise
        body = json.dumps({"n": n, "ways": len(result.solutions), "status": result.status})
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write((head + body).encode())
        await writer.drain()


async def ask(port: int, n: int) -> dict[str, object]:
    """Is a client."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /queens/{n} HTTP/1.1\r\n\r\n".encode())
    response = await reader.read()
    writer.close()
    return dict(json.loads(response.partition(b"\r\n\r\n")[2]))


async def ask_and_leave(port: int) -> None:
    """Is a client without patience."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /queens/20 HTTP/1.1\r\n\r\n")
    await asyncio.sleep(0.3)
    writer.close()


async def main() -> None:
    async with Pool(2) as pool:  # once, when the program starts: not once for each request
        server = Server(pool)
        before = pool.pids
        async with await asyncio.start_server(server.handle, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            leaving = asyncio.create_task(ask_and_leave(port))
            answers = await asyncio.gather(*(ask(port, 4 + each % 5) for each in range(20)))
            await leaving
            status = await server.hung_up.get()
        ways = [f"{each['n']} in {each['ways']}" for each in answers[:5]]
        ways[0] = f"{answers[0]['n']} queens in {answers[0]['ways']} ways"
        print(f"{len(answers)} clients were answered: {', '.join(ways)}")
        print("the one that hung up:", status)
        same = "the same ones" if pool.pids == before else "others"
        print(f"worker processes in use: {len(pool.pids)}, {same} before and after")


if __name__ == "__main__":
    asyncio.run(main())
