"""Processes that answer calls one by one, and are replaced where a candidate ends them.

servant = Servant({"JAX_PLATFORMS": "cpu"}, Compiler)
servant.ask("compile", source, function, types, seconds=40.0)    # an answer, or RuntimeError
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


class Servant:
    """A process that answers calls one by one, and is replaced where it dies or is late."""

    def __init__(
        self, environment: dict[str, str], begin: Callable[..., Any], *arguments: Any
    ) -> None:
        self._environment, self._begin, self._arguments = environment, begin, arguments
        self._process: Any = None
        self.starts = 0
        self.ready: Any = None

    def ask(self, name: str, *arguments: Any, seconds: float = 30.0) -> Any:
        """What a method of the servant's object gives; raises RuntimeError with the reason."""
        self.start()
        return self._exchange((name, arguments), seconds)

    def start(self) -> None:
        if self._process is not None and self._process.is_alive():
            return
        context = multiprocessing.get_context("spawn")
        self._connection, far_end = context.Pipe()
        arguments = (far_end, self._environment, self._begin, self._arguments)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        far_end.close()
        self.starts += 1
        self.ready = self._receive(120.0)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _exchange(self, message: Any, seconds: float) -> Any:
        try:
            self._connection.send(message)
        except OSError as error:
            self.end()
            raise RuntimeError("the process had died") from error
        return self._receive(seconds)

    def _receive(self, seconds: float) -> Any:
        try:
            if not self._connection.poll(seconds):
                self.end()
                raise RuntimeError(f"no answer in {seconds:.0f} s")
            right, answer = self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.join(5)
            code = self._process.exitcode
            self.end()
            raise RuntimeError(f"the process died with exit code {code}") from error
        if not right:
            raise RuntimeError(answer)
        return answer


def _serve(connection: Connection, environment: dict[str, str], begin: Any, arguments: Any) -> None:
    os.environ.update(environment)
    try:
        servant = begin(*arguments)
        connection.send((True, servant.about))
    except Exception as error:
        connection.send((False, reason(error)))
        return
    while True:
        try:
            name, passed = connection.recv()
        except EOFError:
            return
        try:
            connection.send((True, getattr(servant, name)(*passed)))
        except Exception as error:
            connection.send((False, reason(error)))


def reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {' | '.join(lines[:3])}"[:400]
