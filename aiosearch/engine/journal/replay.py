"""Reading a journal back: whose it is, and what it adds up to."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import aclosing
from time import perf_counter
from typing import TYPE_CHECKING

import aiofiles
import msgspec

from ...errors import JournalError
from .records import JournalHeader, JournalRecord, JournalState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

_SLICE = 0.001
_CHUNK = 256 * 1024
_decode_header = msgspec.json.Decoder(JournalHeader).decode
_decode_record = msgspec.json.Decoder(JournalRecord).decode


def read_header(path: Path) -> JournalHeader:
    """Reads the `JournalHeader` of a file, without owning it."""
    try:
        with path.open("rb") as file:
            line = file.readline()
    except OSError as error:
        raise JournalError(f"cannot read the journal {path}: {error.strerror}") from None
    if not line:
        raise JournalError(f"{path} is empty: there is nothing to resume")
    text = _unseal(line)
    try:
        if text is not None:
            return _decode_header(text)
    except msgspec.MsgspecError:
        pass
    raise JournalError(f"{path} is not a journal of a search: its first line is no header")


def check_header(path: Path, journalled: JournalHeader, header: JournalHeader) -> None:
    """Raises `JournalError` unless the search of `header` can go on where the journal's
    stopped.

    Strategy, workers, seed and order may change; what the nodes mean may not.
    """
    _same(path, "a journal of format", journalled.format, header.format)
    if _series(journalled.aiosearch) != _series(header.aiosearch):
        _same(path, "from aiosearch", journalled.aiosearch, header.aiosearch)
    _same(path, "of the problem", journalled.problem, header.problem)
    _same(path, "about nodes of type", journalled.node_type, header.node_type)
    # Bytes decide; the text is there to say what differs
    if journalled.parameters != header.parameters:
        _same(path, "of the problem", journalled.parameters_text, header.parameters_text)
        raise JournalError(f"{path} is of a problem with other parameters, which print alike")


async def replay(path: Path) -> tuple[JournalState, int]:
    """Adds a journal up, without blocking the loop; gives the length of its whole records too.

    What follows them, if anything, is the torn end of a write that a crash cut short. Raises
    JournalError when a line is damaged that others follow.
    """
    state = JournalState(read_header(path))
    whole = length = number = damaged = records = 0
    parts: list[JournalRecord] = []
    async with aclosing(_lines(path)) as lines:
        async for line in lines:
            number += 1
            text = _unseal(line)
            if text is None:
                # Not an error yet: at the end of the file it is a torn write, which a crash may
                # leave
                damaged = damaged or number
                continue
            if damaged:
                raise JournalError(
                    f"{path}: line {damaged} is damaged, but line {number} after it is not, so this"
                    " is not the torn end of a crash; restore the file from a copy, or remove it"
                )
            length += len(line)
            if number > 1:
                parts.append(_record(path, number, text))
                # Not `whole` yet: a crash between the parts must drop them all
                if parts[-1].more:
                    continue
                await _apply(state, parts)
                records += 1
            # Up to here transactions are complete: what follows is cut off before anything is
            # appended
            whole = length
    if parts and not records:
        raise JournalError(
            f"{path}: the snapshot that it begins with ends at line {number}, before its last"
            " part; restore the file from a copy, or remove it"
        )
    return state, whole


async def _apply(state: JournalState, parts: list[JournalRecord]) -> None:
    for part in parts:
        state.apply(part)
        if len(parts) > 1:
            await asyncio.sleep(0)
    parts.clear()


def _record(path: Path, number: int, text: bytes) -> JournalRecord:
    try:
        return _decode_record(text)
    except msgspec.MsgspecError as error:
        raise JournalError(f"{path}: line {number} is no record: {error}") from None


async def _lines(path: Path) -> AsyncGenerator[bytes, None]:
    """Gives the lines of a file, the last one maybe without its end, in slices of `_SLICE`
    seconds."""
    tail = b""
    async with aiofiles.open(path, "rb") as file:
        started = perf_counter()
        while chunk := await file.read(_CHUNK):
            *lines, tail = (tail + chunk).split(b"\n")
            for line in lines:
                yield line + b"\n"
                # A journal of gigabytes is read in a running loop
                if perf_counter() - started > _SLICE:
                    await asyncio.sleep(0)
                    started = perf_counter()
    if tail:
        yield tail


def _series(version: str) -> str:
    """Versions of one series, `0.1` of `0.1.7`, read each other's journals."""
    return ".".join(version.split(".")[:2])


def _same(path: Path, what: str, journalled: object, expected: object) -> None:
    if journalled != expected:
        raise JournalError(
            f"{path} is {what} {journalled}, and this search is {what} {expected}: resume it as it"
            " was, or start another journal"
        )


def _unseal(line: bytes) -> bytes | None:
    """Gives a line's text, or None for a line whose checksum is wrong."""
    text = line[9:-1]
    if line[8:9] == b" " and line.endswith(b"\n") and line[:8] == b"%08x" % zlib.crc32(text):
        return text
    return None
