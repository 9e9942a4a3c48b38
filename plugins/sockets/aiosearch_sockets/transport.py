"""What the console script finds by the name `sockets`."""

from __future__ import annotations

from pathlib import Path

from aiosearch import AiosearchError
from aiosearch.remote.links import API, Link, UnwelcomeError

from .calling import call
from .listening import TcpListener
from .tokens import read_token

HERE = "127.0.0.1:0"


class SocketsTransport:
    """TCP, with a token in a file: the `Transport` that this plugin offers."""

    api = API

    def listener(self, address: str | None, token_file: Path | None) -> TcpListener:
        """Makes a `TcpListener`, which listens once it is started; without an address, on a
        free port of this machine."""
        return TcpListener(address or HERE, _token(token_file), token_file)

    async def connect(self, address: str, token_file: Path | None) -> Link:
        """Makes the link of a host, by `call`."""
        return await call(address, _token(token_file))


transport = SocketsTransport()


def _token(path: Path | None) -> bytes | None:
    """Reads the token file; one that cannot be used will not do so the next time, hence
    `UnwelcomeError`."""
    try:
        return None if path is None else read_token(path)
    except AiosearchError as error:
        raise UnwelcomeError(str(error)) from None
