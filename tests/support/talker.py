"""A child that says a number of things and ends, whatever it hears."""

from __future__ import annotations

from aiosearch.processes.frames import enter_child

if __name__ == "__main__":
    channel, (count, size) = enter_child()
    for number in range(int(count)):
        channel.send(number.to_bytes(int(size), "little"))
