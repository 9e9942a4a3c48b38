"""Addresses as people write them: `host:7000`, `10.0.0.1:7000`, `[::1]:7000`."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from aiosearch import AiosearchError


class Address(NamedTuple):
    """A host, by name or number, and a port; `str` writes it as people do."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can get there."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_address(text: str) -> Address:
    """Reads an address; the brackets of `[::1]:7000` must be there."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise AiosearchError(
            f"{text!r} is no address: write HOST:PORT, as in 127.0.0.1:7000 or [::1]:7000"
        )
    return Address(host, int(port))
