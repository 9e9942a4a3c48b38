"""A child of a nursery, or a process of its own, that does what it is told as a text."""

from __future__ import annotations

import json
import os

from aiosearch.processes.frames import enter_child

IMPORTED_BY = os.getpid()


def main() -> None:
    channel, (code, *words) = enter_child()

    def say(what: object) -> None:
        channel.send(json.dumps(what).encode())

    exec(code, {"channel": channel, "say": say, "words": words, "IMPORTED_BY": IMPORTED_BY})


if __name__ == "__main__":
    main()
