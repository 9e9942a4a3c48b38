"""A child that another process has forked for us: what we need of `subprocess.Popen`."""

from __future__ import annotations

import os


class Forked:
    """A child of this process that another one has forked."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._collect(os.WNOHANG)

    def wait(self) -> int | None:
        return self._collect(0)

    def send_signal(self, number: int, /) -> None:
        """Never to another process: until it is waited for, the number is its own."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _collect(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # as subprocess has it where somebody else has waited
                self.returncode = 0
                return 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode
