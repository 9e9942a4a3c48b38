"""The named actor: keeps what searches found, for hosts that come late and for whoever looks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Any, Protocol

import msgspec

from aiosearch.checks.verdict import Status, Verdict
from aiosearch.remote.notebooks import PART, Known, Standing, Verdicts

MOST_VERDICTS = 200_000
"""Verdicts that are kept; when there are more, the oldest go."""
MOST_SEARCHES = 100

encode = msgspec.msgpack.Encoder().encode
_verdicts = msgspec.msgpack.Decoder(list[tuple[bytes, Verdict]]).decode
_standings = msgspec.msgpack.Decoder(dict[str, Standing]).decode


class KeptVerdicts:
    """Verdicts by their digests."""

    def __init__(self) -> None:
        self._verdicts: dict[bytes, Verdict] = {}

    def __len__(self) -> int:
        return len(self._verdicts)

    def add(self, answers: Iterable[Known]) -> None:
        """Takes verdicts; an answer stays where a smaller budget led to `unknown`."""
        verdicts = self._verdicts
        for digest, verdict in answers:
            if verdict.status is not Status.UNKNOWN or not _answers(verdicts.get(digest)):
                verdicts[digest] = verdict
        if len(verdicts) > MOST_VERDICTS:
            for old in list(islice(verdicts, len(verdicts) - MOST_VERDICTS + PART)):
                del verdicts[old]

    def part(self, start: int = 0) -> list[Known]:
        """A part of the verdicts from `start` on, the oldest first; none beyond the last."""
        return list(islice(self._verdicts.items(), start, start + PART))

    def remove(self, verdicts: Iterable[Known]) -> None:
        """Forgets these verdicts, but for those that are others by now."""
        for digest, verdict in verdicts:
            if self._verdicts.get(digest) is verdict:
                del self._verdicts[digest]

    def all(self) -> list[Known]:
        return list(self._verdicts.items())


class Standings:
    """How searches stand, by their names: the latest hundred `Standing`s."""

    def __init__(self) -> None:
        self.by_name: dict[str, Standing] = {}

    def add(self, standings: dict[str, Standing]) -> None:
        for name, standing in standings.items():
            self.by_name.pop(name, None)  # so that it is among the latest again
            self.by_name[name] = standing
        while len(self.by_name) > MOST_SEARCHES:
            del self.by_name[next(iter(self.by_name))]


class Notes:
    """Copies of what searches know, so that its death loses nothing; bytes travel, never objects.

    `standing` is for everybody on the cluster.
    """

    def __init__(self) -> None:
        self._kept = KeptVerdicts()
        self._standings = Standings()

    def write(self, verdicts: bytes, standings: bytes) -> None:
        """Takes what is new."""
        self._kept.add(_verdicts(verdicts))
        self._standings.add(_standings(standings))

    def read(self, start: int) -> bytes:
        """A part of the verdicts, from a place on; an empty one beyond the last."""
        return encode(self._kept.part(start))

    def standing(self) -> dict[str, Any]:
        """How many verdicts there are and, by search, what it has found, as plain values.

        `best` is the best solution as msgpack: `msgspec.msgpack.decode` reads it.
        """
        searches = {name: msgspec.structs.asdict(state) for name, state in self._of_all()}
        return {"verdicts": len(self._kept), "searches": searches}

    def _of_all(self) -> Iterable[tuple[str, Standing]]:
        return self._standings.by_name.items()


class Readable(Protocol):
    """The actor, from afar: what `parts` needs of it."""

    async def read(self, start: int) -> bytes: ...


async def parts(notes: Readable) -> AsyncIterator[list[Known]]:
    """The actor's verdicts, in parts; raises `ValueError` where they are none."""
    start = 0
    while part := _verdicts(await notes.read(start)):
        yield part
        start += len(part)


def decided(verdicts: Iterable[Known]) -> Verdicts:
    """Those of the verdicts that are answers, as `VerdictReplies` has them: what is unknown may
    be known to the next."""
    return tuple((digest, str(verdict.status)) for digest, verdict in verdicts if _answers(verdict))


def _answers(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.status is not Status.UNKNOWN
