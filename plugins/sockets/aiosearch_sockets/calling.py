"""Connects to a host that listens: `call`."""

from __future__ import annotations

import asyncio
import os
import random
import socket

from aiosearch import AiosearchError
from aiosearch.remote.links import Link, UnwelcomeError

from .addresses import Address, parse_address
from .greeting import Greeting
from .link import TcpLink
from .secure import FrameError, Secure
from .tokens import own_token

PAUSES = (0.05, 0.2, 0.8)
"""Seconds between attempts: where many hosts come at once, a listener drops some of them."""


async def call(address: str, token: bytes | None = None, *, seconds: float = 10.0) -> Link:
    """Connects, and gives a link once both sides have shown that they have the `token`.

    On this machine the token may be left out: it is the user's own then. Raises
    `UnwelcomeError` where trying again is no use, and `AiosearchError` where nobody answers, or
    not in time.
    """
    try:
        target = parse_address(address)
    except AiosearchError as error:
        raise UnwelcomeError(str(error)) from None
    if token is None:
        if not target.is_loopback:
            raise UnwelcomeError(f"{address} is not on this machine: it needs a token file")
        token, _ = own_token()
    try:
        async with asyncio.timeout(seconds):
            outcome = await _greeted(target, token)
            for pause in PAUSES:
                if isinstance(outcome, TcpLink | FrameError):
                    break
                await asyncio.sleep(random.uniform(0, pause))
                outcome = await _greeted(target, token)
    except TimeoutError:
        raise AiosearchError(f"{address} did not answer within {seconds:g} s") from None
    except OSError as error:
        raise AiosearchError(_explained(target, error)) from None
    if isinstance(outcome, AiosearchError):
        raise outcome
    return outcome


async def _greeted(address: Address, token: bytes) -> TcpLink | AiosearchError:
    """Waits for the end of a handshake; leaves no connection when it is not waited for."""
    loop = asyncio.get_running_loop()
    settled: asyncio.Future[TcpLink | AiosearchError] = loop.create_future()

    def settle(_: Greeting, outcome: TcpLink | AiosearchError) -> None:
        if not settled.done():
            settled.set_result(outcome)
        elif isinstance(outcome, TcpLink):
            outcome.close()

    greeting = Greeting(Secure(token, caller=True), settle)
    try:
        await loop.create_connection(lambda: greeting, *address)
        return await settled
    except BaseException:
        greeting.drop("was called, and nobody waits for it")
        outcome = settled.result() if settled.done() and not settled.cancelled() else None
        if isinstance(outcome, TcpLink):
            outcome.close()
        raise


def _explained(address: Address, error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"nobody listens on {address}"
    if isinstance(error, socket.gaierror):
        return f"cannot reach {address}: there is no such host"
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"cannot reach {address}: {reason}"
