"""A coverage-guided mutator of msgpack messages.

The decoder is compiled, so a fuzzer that counts branches of it has to build it again. What shows
here that a frame did something new: a line of Python that followed another for the first time, a
refusal with new words at a new place, or a message of a new form.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from random import Random
from types import CodeType, FrameType
from typing import Any, TypeAlias

import msgspec

ODD: tuple[Any, ...] = (
    None, True, 0, 1, -1, 23, 2**31, 2**40, 2**63, 2**64 - 1, -(2**63), 1.5, float("nan"),
    float("inf"), b"", "", "a" * 201, "a" * 2001, b"\xff" * 300, [], {}, [[]], {"": ""},
    "\x00", "𐏿", msgspec.msgpack.Ext(5, b"ext"),
)  # fmt: skip
MARKERS = bytes.fromhex("c0c1c2c4c5c6c7c8c9cacbcccfd0d3d4d8d9dadbdcdddedf8090a0e0ff007f")
HUGE = tuple(bytes([head]) + b"\xff\xff\xff\xff" for head in (0xC6, 0xDB, 0xDD, 0xDF))
NUMBERS = (0, 1, 2, 3, 4096, 1 << 40, (1 << 63) - 1)
MOST_BYTES = 4096

Trace: TypeAlias = Callable[[FrameType, str, Any], Any]


class Mutator:
    """Makes frames from those that showed something new."""

    def __init__(self, random: Random, seeds: Sequence[bytes]) -> None:
        self._random = random
        self._good = list(seeds)
        self._bad = list(seeds)
        self._ways = (self._flip, self._mark, self._cut, self._join, self._nest, self._reshape)

    @property
    def corpus(self) -> int:
        """How many frames it goes out from."""
        return len(self._good) + len(self._bad)

    def keep(self, frame: bytes, good: bool) -> None:
        """Goes out from this one too; the good ones can be decoded."""
        (self._good if good else self._bad).append(frame)

    def frame(self) -> bytes:
        """Changes one of the corpus in a few places, most often one that can be decoded."""
        random = self._random
        frame = random.choice(self._good if random.random() < 0.8 else self._bad)
        for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
            way = self._reshape if random.random() < 0.6 else random.choice(self._ways)
            frame = way(frame)
        return frame[:MOST_BYTES]

    def _at(self, frame: bytes) -> int:
        return self._random.randrange(len(frame) + 1)

    def _flip(self, frame: bytes) -> bytes:
        changed = bytearray(frame or b"\x90")
        changed[self._random.randrange(len(changed))] ^= 1 << self._random.randrange(8)
        return bytes(changed)

    def _mark(self, frame: bytes) -> bytes:
        """Puts the head of another kind of value somewhere, or of one without end."""
        at, random = self._at(frame), self._random
        head = bytes([random.choice(MARKERS)]) if random.random() < 0.7 else random.choice(HUGE)
        return frame[:at] + head + frame[at + random.choice((0, 1, len(head))) :]

    def _cut(self, frame: bytes) -> bytes:
        start, end = sorted((self._at(frame), self._at(frame)))
        return frame[:start] + frame[end:]

    def _join(self, frame: bytes) -> bytes:
        other = self._random.choice(self._good)
        return frame[: self._at(frame)] + other[self._at(other) :]

    def _nest(self, frame: bytes) -> bytes:
        """Puts a value deep into arrays of one."""
        at = self._at(frame)
        return frame[:at] + b"\x91" * self._random.choice((1, 10, 2000)) + frame[at:]

    def _reshape(self, frame: bytes) -> bytes:
        """Changes the value that a frame holds, or one inside of what it carries."""
        try:
            return msgspec.msgpack.encode(self._changed(msgspec.msgpack.decode(frame)))
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
            return self._flip(frame)

    def _changed(self, value: Any) -> Any:
        random = self._random
        if isinstance(value, list) and value and random.random() < 0.9:
            return self._relisted(value)
        if isinstance(value, dict) and value and random.random() < 0.8:
            key = random.choice(list(value))
            return {**value, random.choice((key, "other", 5)): self._changed(value[key])}
        if isinstance(value, bytes) and value and random.random() < 0.8:
            return self._reshape(value)
        return random.choice(ODD) if random.random() < 0.3 else self._alike(value)

    def _alike(self, value: Any) -> Any:
        """Gives another value of the same type, which a decoder has no reason to refuse."""
        random = self._random
        match value:
            case bool():
                return not value
            case int():
                return random.choice((*NUMBERS, value + 1, value - 1, random.getrandbits(20)))
            case float():
                return random.choice((value + 1, -value, 0.0, 1e300, 5e-324))
            case str():
                at = random.randrange(len(value) + 1)
                return value[:at] + random.choice(("", "x", "é", "%s", ".")) + value[at + 1 :]
            case bytes():
                return self._flip(value)
            case _:
                return random.choice(ODD)

    def _relisted(self, value: list[Any]) -> list[Any]:
        random = self._random
        at = random.randrange(len(value))
        choice = random.random()
        if choice < 0.1:
            return value[:at] + value[at + 1 :]
        if choice < 0.2:
            return [*value[:at], random.choice(ODD), *value[at:]]
        if choice < 0.25:
            return value + value
        return [*value[:at], self._changed(value[at]), *value[at + 1 :]]


class Coverage:
    """What has been seen, of frames and of the code that handles them."""

    def __init__(self, *files: str) -> None:
        self.seen: set[object] = set()
        self._files = files
        self._ours: dict[CodeType, bool] = {}
        self._last = 0

    def run(self, handle: Callable[[], object]) -> bool:
        """Handles a frame; says whether that showed something new."""
        before = len(self.seen)
        self._last = 0
        sys.settrace(self._called)
        try:
            shown = handle()
        finally:
            sys.settrace(None)
        self.seen.add(shown)
        return len(self.seen) > before

    def _called(self, frame: FrameType, event: str, _: Any) -> Trace | None:
        code = frame.f_code
        if code not in self._ours:
            self._ours[code] = code.co_filename.endswith(self._files)
        return self._step if self._ours[code] else None

    def _step(self, frame: FrameType, event: str, _: Any) -> Trace:
        if event == "line":
            self.seen.add((frame.f_code, self._last, frame.f_lineno))
            self._last = frame.f_lineno
        return self._step


def words(error: Exception) -> str:
    """What an error says, without its numbers and quotations."""
    told = re.sub(r"[0-9]+", "0", f"{type(error).__name__}: {error}")
    return re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", told)[:200]


def form(value: Any, depth: int = 3) -> object:
    """The types in a message, and about how much there is of each."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.astuple(value)
        return type(value).__name__, tuple(form(field, depth - 1) for field in fields)
    if isinstance(value, int) and not isinstance(value, bool):
        return "int", value.bit_length() // 16
    if isinstance(value, (bytes, str)):
        return type(value).__name__, len(value).bit_length() // 4
    if isinstance(value, (list, tuple)) and depth:
        return "array", len(value).bit_length(), *(form(one, depth - 1) for one in value[:1])
    return type(value).__name__
