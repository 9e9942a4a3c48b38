"""The table of keys of a simulated search."""

from __future__ import annotations

from typing import TypeAlias

from ..engine.claims import LocalClaims, SharedClaims

Claims: TypeAlias = LocalClaims | SharedClaims


class Tables:
    """Gives each worker its view: one dict for all, or, where workers die, the real shared table.

    Only the shared one can void a dead worker's claims; it holds a file open for each worker.
    """

    def __init__(self, wanted: bool, shared: bool) -> None:
        self._local = LocalClaims() if wanted and not shared else None
        self._shared = SharedClaims.create() if wanted and shared else None
        self._views: list[SharedClaims] = []

    def open(self, owner: int) -> Claims | None:
        """Opens the table for one life of one worker; None where the problem has no keys."""
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
