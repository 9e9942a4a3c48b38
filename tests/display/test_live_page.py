"""A page that is served while something runs."""

from __future__ import annotations

import http.client
import socket

import pytest

from aiosearch import AiosearchError
from aiosearch.display.live_page import LOOPBACK, LivePage


def get(address: str, path: str = "/", host: str | None = None) -> tuple[int, str]:
    place = address.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(place, timeout=20)
    try:
        connection.request("GET", path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_each_request_gets_the_page_of_that_moment() -> None:
    pages = iter(("<p>first</p>", "<p>second</p>"))
    with LivePage(0, lambda: next(pages)) as live:
        assert live.address.startswith("http://127.0.0.1:")
        assert get(live.address) == (200, "<p>first</p>")
        assert get(live.address) == (200, "<p>second</p>")


def test_nothing_else_is_served_and_nobody_else_is_answered() -> None:
    """Whose name was made to point here is another site."""
    with LivePage(0, lambda: "page") as live:
        port = live.address.rpartition(":")[2].rstrip("/")
        assert get(live.address, "/etc/passwd")[0] == 404
        assert get(live.address, host=f"evil.example:{port}")[0] == 403
        assert get(live.address, host=f"localhost:{port}")[0] == 200


def test_it_is_gone_when_it_is_left() -> None:
    with LivePage(0, lambda: "page") as live:
        address = live.address
    with pytest.raises(ConnectionRefusedError):
        get(address)


def test_a_port_in_use_is_refused_in_words() -> None:
    with socket.socket() as other:
        other.bind((LOOPBACK, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(AiosearchError, match=rf"port {port} of 127\.0\.0\.1: .*take another"):
            LivePage(port, lambda: "page")
