"""The boards of simulated machines: the real ones, on a virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.sharing import Sharing, create_board

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..engine.wire import Begin
    from ..strategies.exchange import Board


class Boards:
    """One board a machine, where the strategy has one and there is somebody to share with."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = hosts
        self._places = {
            seat: sum(other == host for other in hosts[:seat]) for seat, host in enumerate(hosts)
        }
        self._boards: dict[str, Board] = {}

    def open(self, seat: int, begin: Begin, ring: Callable[[], None]) -> Sharing | None:
        """Gives a worker its place; None where it shares nothing."""
        host = self._hosts[seat]
        places = self._hosts.count(host)
        if not begin.exchange or places < 2:
            return None
        if host not in self._boards:
            self._boards[host] = create_board(begin.exchange, places)
        exchange = self._boards[host].exchange(self._places[seat], begin.owner, ring)
        return Sharing(exchange, begin.owner, begin.free_nodes, verdicts=not begin.asker)

    def revoke(self, seat: int, owner: int) -> Mapping[int, int] | None:
        """Takes back what a dead worker had offered."""
        board = self._boards.get(self._hosts[seat])
        return board.revoke(self._places[seat], owner) if board else {}

    def close(self) -> None:
        """Gives everything back."""
        for board in self._boards.values():
            board.close()
