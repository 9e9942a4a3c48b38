"""The boards and key tables of simulated machines, shared by the workers of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ...engine.explore.claims import LocalClaims, SharedClaims
from ...engine.worker.work_sharing import WorkSharing, create_board

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...engine.wire.messages import Begin
    from ...strategies.exchange import Board


class SimulatedBoards:
    """One `Board` a machine, where the strategy has one and there is somebody to share with."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = hosts
        self._places = {
            seat: sum(neighbour == host for neighbour in hosts[:seat])
            for seat, host in enumerate(hosts)
        }
        self._boards: dict[str, Board] = {}

    def open(self, seat: int, begin: Begin, ring: Callable[[], None]) -> WorkSharing | None:
        """Gives a worker its place; None where it shares nothing."""
        host = self._hosts[seat]
        places = self._hosts.count(host)
        if not begin.exchange or places < 2:
            return None
        if host not in self._boards:
            self._boards[host] = create_board(begin.exchange, places)
        exchange = self._boards[host].exchange(self._places[seat], begin.owner, ring)
        return WorkSharing(exchange, begin.owner, begin.free_nodes, verdicts=not begin.asker)

    def revoke(self, seat: int, owner: int) -> Mapping[int, int] | None:
        """Takes back what a dead worker had offered, as `Board.revoke` does."""
        board = self._boards.get(self._hosts[seat])
        return board.revoke(self._places[seat], owner) if board else {}

    def close(self) -> None:
        """Gives everything back."""
        for board in self._boards.values():
            board.close()


Claims: TypeAlias = LocalClaims | SharedClaims


class SimulatedKeyTables:
    """Gives each worker its view: one `LocalClaims` for all, or, where workers die, a
    `SharedClaims`.

    Only the shared one can void a dead worker's claims; it holds a file open for each worker.
    """

    def __init__(self, keyed: bool, shared: bool) -> None:
        self._local = LocalClaims() if keyed and not shared else None
        self._shared = SharedClaims.create() if keyed and shared else None
        self._views: list[SharedClaims] = []

    def open(self, owner: int) -> Claims | None:
        """Opens the table for one life of one worker; None where the problem has no `key`."""
        if self._shared is None:
            return self._local
        self._views.append(SharedClaims.attach(self._shared.path, owner))
        return self._views[-1]

    def release(self, owner: int, committed: int) -> None:
        """Makes a dead worker's claims void from a report on."""
        if self._shared is not None:
            self._shared.release(owner, committed)

    def close(self) -> None:
        """Gives everything back."""
        for table in (*self._views, self._shared):
            if table is not None:
                table.close()
