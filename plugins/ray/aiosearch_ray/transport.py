"""What the console script finds by the name `ray`."""

from __future__ import annotations

from pathlib import Path

from aiosearch import AiosearchError
from aiosearch.remote.links import API, Link, UnwelcomeError

from .listening import RayListener


class RayTransport:
    """A Ray cluster, which starts the hosts itself."""

    api = API

    def listener(self, address: str | None, token_file: Path | None) -> RayListener:
        """Serves from that cluster once it is started; without an address, from the usual one."""
        if token_file is not None:
            raise AiosearchError(
                "a Ray cluster has its own ways to know who may use it: leave --token-file out"
            )
        return RayListener(address)

    async def connect(self, address: str, token_file: Path | None) -> Link:
        """Refuses: Ray starts the hosts."""
        raise UnwelcomeError(
            f"machines join a cluster, not a search: `ray start --address={address}`"
        )


transport = RayTransport()
