"""A query for the progress of a search that listens."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ..errors import AiosearchError
from .links import Transport
from .protocol import API, Farewell, ProgressQuery, SearchStateDocument, decode_for_agent, encode

SECONDS = 10.0


async def query_status(transport: Transport, address: str, token_file: Path | None) -> bytes:
    """The state of the search, as JSON; raises `AiosearchError` where nobody answers."""
    link = await transport.connect(address, token_file)
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def received(payload: bytes) -> None:
        message = decode_for_agent(payload)
        if isinstance(message, SearchStateDocument) and not answer.done():
            answer.set_result(message.document)
        elif isinstance(message, Farewell):
            closed(message.reason)

    def closed(reason: str) -> None:
        if not answer.done():
            answer.set_exception(AiosearchError(f"{address} does not answer: {reason}"))

    # A search that ends in this moment says `Farewell`, which is an answer as well
    link.open(received, closed)
    link.send(encode(ProgressQuery(API)))
    try:
        async with asyncio.timeout(SECONDS):
            return await answer
    except TimeoutError:
        raise AiosearchError(f"{address} does not answer") from None
    finally:
        link.close()
