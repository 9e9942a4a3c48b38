"""Tables of the console script in a terminal."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

from testkit.hosts.console import Start


def test_a_terminal_is_asked_for_its_width(start: Start) -> None:
    """What is shown there is all that a file would get."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 90, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    try:
        assert start("programs", stdout=slave, env=environment).wait(20) == 0
        shown = os.read(master, 1 << 16).decode()
    finally:
        os.close(slave)
        os.close(master)
    written, _ = start("programs", env=environment).communicate(timeout=20)
    assert max(map(len, written.splitlines())) > 90
    assert max(map(len, shown.splitlines())) <= 90
    assert sorted(shown.split()) == sorted(written.split())
