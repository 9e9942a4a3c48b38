from __future__ import annotations

import pytest
from aiosearch_sockets.addresses import Address, parse_address

from aiosearch import AiosearchError


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:7000", "127.0.0.1", 7000, True),
        ("127.9.9.9:0", "127.9.9.9", 0, True),
        ("localhost:1", "localhost", 1, True),
        ("[::1]:7000", "::1", 7000, True),
        ("[fe80::2]:65535", "fe80::2", 65535, False),
        ("0.0.0.0:7000", "0.0.0.0", 7000, False),
        ("localhost.example.org:80", "localhost.example.org", 80, False),
    ],
)
def test_an_address_is_read_and_written(text: str, host: str, port: int, loopback: bool) -> None:
    """It says whether only this machine can get there."""
    address = parse_address(text)
    assert address == Address(host, port)
    assert str(address) == text
    assert address.is_loopback is loopback


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":7000", "host:65536", "host:-1", "host:http", "::1:7000", "h:٣"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(AiosearchError, match="is no address: write HOST:PORT"):
        parse_address(text)
