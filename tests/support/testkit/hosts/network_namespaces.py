"""Hosts that can be cut off for real: network namespaces, joined by a switch in one more.

Nothing of them has a name outside: namespaces, the links between them and their addresses are there
as long as somebody holds them. Who holds them reads from a pipe whose other end this process has,
and ends with it, however that comes about.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Self

WAYS = ((), ("--user", "--map-root-user"))
"""How a namespace may be had: as root, or as root of a user namespace that anybody may make."""
TOOLS = ("unshare", "nsenter", "ip")
HOLD = ("sh", "-c", "echo held && exec cat")
NOWHERE = "02:00:00:00:00:00"
"""The hardware address of nobody."""


class ForbiddenError(Exception):
    """This machine makes no network namespaces; the message says why."""


class Host:
    """A namespace with an address on the switch, and the way into it."""

    def __init__(self, switch: _Namespace, own: _Namespace, number: int) -> None:
        self.address = f"10.213.77.{number}"
        self._switch = switch
        self._own = own
        self._port = f"port{number}"
        self._switch.set_up(
            f"link add {self._port} type veth peer name eth0 netns {self._own.pid}",
            f"link set {self._port} master switch up",
        )
        self._own.set_up(
            "link set lo up",
            f"address add {self.address}/24 dev eth0",
            "link set eth0 up",
        )

    @property
    def inside(self) -> tuple[str, ...]:
        """Words that, put before those of a command, have it run there."""
        return self._own.inside

    def cut_off(self) -> None:
        """Nothing reaches it or comes from it any more, and nobody is told."""
        self._switch.set_up(f"link set {self._port} nomaster")

    def join(self) -> None:
        """Ends `cut_off`."""
        self._switch.set_up(f"link set {self._port} master switch")

    def unplug(self) -> None:
        """It is cut off, and its kernel knows: there is no network, and no way to anywhere."""
        self._own.set_up("link set eth0 down")

    def plug(self) -> None:
        """Ends `unplug`."""
        self._own.set_up("link set eth0 up")

    def mute(self, other: Host) -> None:
        """What it sends to another is lost, and what the other sends arrives."""
        self._own.set_up(
            f"neighbour replace {other.address} lladdr {NOWHERE} nud permanent dev eth0"
        )

    def unmute(self, other: Host) -> None:
        """Ends `mute`."""
        self._own.set_up(f"neighbour delete {other.address} dev eth0")


@contextmanager
def network(hosts: int) -> Iterator[tuple[Host, ...]]:
    """So many hosts that reach each other and nothing else; raises ForbiddenError."""
    with ExitStack() as made:
        switch = made.enter_context(_allowed())
        switch.set_up("link add switch type bridge", "link set switch up")
        spaces = [made.enter_context(_Namespace(switch.inside, ())) for _ in range(hosts)]
        yield tuple(Host(switch, own, number) for number, own in enumerate(spaces, start=1))


def _allowed() -> _Namespace:
    """A namespace, made in the first way that this machine lets us."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        raise ForbiddenError(f"network namespaces need {', '.join(missing)}")
    reasons = []
    for way in WAYS:
        try:
            return _Namespace((), way)
        except ForbiddenError as error:
            reasons.append(str(error))
    raise ForbiddenError("; ".join(dict.fromkeys(reasons)))


class _Namespace:
    """A network namespace, made from within another, and the process that holds it."""

    def __init__(self, within: tuple[str, ...], way: tuple[str, ...]) -> None:
        self._holder = subprocess.Popen(
            [*within, "unshare", *way, "--net", *HOLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        if not self._holder.stdout.readline():
            _, told = self._holder.communicate()
            raise ForbiddenError(told.strip() or "no network namespace can be made")
        owner = ("--user", "--preserve-credentials") if way or "--user" in within else ()
        self.inside = ("nsenter", "--target", str(self.pid), *owner, "--net")

    @property
    def pid(self) -> int:
        return self._holder.pid

    def set_up(self, *steps: str) -> None:
        """Has `ip` take steps there; raises ForbiddenError at one that this machine refuses."""
        command = [*self.inside, "ip", "-batch", "-"]
        done = subprocess.run(command, input="\n".join(steps), capture_output=True, text=True)
        if done.returncode:
            raise ForbiddenError(f"{'; '.join(steps)}: {done.stderr.strip()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.communicate()
