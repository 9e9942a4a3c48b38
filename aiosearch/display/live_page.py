"""`LivePage`: a page served on this machine alone, made anew whenever a browser asks for it.

It listens on the loopback address, answers `GET /` and nothing else, and refuses requests whose
`Host` is another name: a page of some other site, whose name was made to point here, cannot read
it. It is served from a thread of its own, so that a search that is busy does not hold it up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from ..errors import AiosearchError

LOOPBACK = "127.0.0.1"
REFRESH_SECONDS = 2.0
"""How long a browser waits before it loads the page again."""


class LivePage:
    """Serves what `page` gives, while it is entered; port 0 takes a free one.

        with LivePage(8000, lambda: report.page(refresh=2)) as live:
            print(live.address)

    `page` is called in another thread. Raises `AiosearchError` where the port cannot be had.
    """

    def __init__(self, port: int, page: Callable[[], str]) -> None:
        try:
            self._server = _Server((LOOPBACK, port), _Handler)
        except OSError as error:
            raise AiosearchError(
                f"cannot serve a page on port {port} of {LOOPBACK}: {error.strerror or error};"
                " take another port, or 0 for any that is free"
            ) from None
        self._server.page = page
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="aiosearch-page", daemon=True
        )

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{LOOPBACK}:{self._server.server_port}/"

    def __enter__(self) -> LivePage:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    page: Callable[[], str]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in (LOOPBACK, "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN, "this page is for this machine alone")
            return
        if self.path != "/":
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        content = self.server.page().encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing: the terminal belongs to the search."""
