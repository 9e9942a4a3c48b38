"""The boards of simulated machines: the real ones, on a virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..engine.sharing import Sharing, load_board

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..engine.wire import Begin
    from ..strategies.exchange import Board


class Timely:
    """An exchange whose offers are seen when their time has come: a worker's step runs ahead."""

    def __init__(self, exchange: Any, later: Callable[[Callable[[], None]], None]) -> None:
        self._exchange = exchange
        self._later = later
        self._coming: set[int] = set()

    @property
    def room(self) -> int:
        """Leaves room for what is coming."""
        room: int = self._exchange.room
        return room - len(self._coming)

    def lacking(self, calm: bool) -> int:
        """Lacks nothing while something is coming."""
        lacking: int = 0 if self._coming else self._exchange.lacking(calm)
        return lacking

    def offer(self, number: int, blob: bytes, weight: float) -> None:
        """Makes it when the others' time is that of the worker."""

        def come() -> None:
            if number in self._coming:
                self._coming.discard(number)
                self._exchange.offer(number, blob, weight)

        self._coming.add(number)
        self._later(come)

    def regain(self) -> list[int]:
        """Regains what nobody has seen as well."""
        regained = [*self._coming, *self._exchange.regain()]
        self._coming.clear()
        return regained

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)


class Boards:
    """One board a machine, where the strategy has one and there is somebody to share with."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = hosts
        self._places = {
            seat: sum(other == host for other in hosts[:seat]) for seat, host in enumerate(hosts)
        }
        self._boards: dict[str, Board] = {}

    def open(
        self,
        seat: int,
        begin: Begin,
        ring: Callable[[], None],
        later: Callable[[Callable[[], None]], None],
    ) -> Sharing | None:
        """Gives a worker its place; None where it shares nothing."""
        host = self._hosts[seat]
        places = self._hosts.count(host)
        if not begin.exchange or places < 2:
            return None
        if host not in self._boards:
            self._boards[host] = load_board(begin.exchange).create(places)
        exchange = self._boards[host].exchange(self._places[seat], begin.owner, ring)
        timely: Any = Timely(exchange, later)
        return Sharing(timely, begin.owner, begin.free_nodes, verdicts=not begin.asker)

    def revoke(self, seat: int, owner: int) -> Mapping[int, int] | None:
        """Takes back what a dead worker had offered."""
        board = self._boards.get(self._hosts[seat])
        return board.revoke(self._places[seat], owner) if board else None

    def close(self) -> None:
        """Gives everything back."""
        for board in self._boards.values():
            board.close()
