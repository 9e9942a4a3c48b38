"""What is remembered of an optimized program: the question, its answer, and how it was measured."""

from __future__ import annotations

import hashlib
import re
import time
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct

SCHEMA = 1
"""Goes up when answers that were found before are not to be used any more."""


class Key(Struct, frozen=True):
    """What an answer is an answer to. Only an equal question gets it."""

    program: str
    """The canonical digest."""
    types: tuple[str, ...]
    """Of the inputs, such as `f32[16, 4096]`."""
    device: str
    """The kind of device, such as `cpu: AMD EPYC, 2 cores`."""
    jax: str
    jaxlib: str
    strict: bool = False
    """Whether NaN and infinity had to stay."""
    schema: int = SCHEMA

    @property
    def digest(self) -> bytes:
        return hashlib.blake2b(msgspec.msgpack.encode(self), digest_size=16).digest()


class Timings(Struct, frozen=True):
    """Seconds of a call, by medians of interleaved rounds."""

    original: float
    plain: float
    """Of the best spelling in plain JAX that was tried."""
    answer: float
    noise: float
    """The ratio that the original reached against itself."""


class Answer(Struct, frozen=True, dict=True):
    """A program's fastest verified source, or its original where nothing faster was found."""

    key: Key
    name: str
    function: str
    """The function in the source that is meant."""
    source: str
    """A module's text that stands alone."""
    verdict: tuple[str, ...]
    """What is known of it and how, a line each."""
    timings: Timings
    faster: bool
    """Whether the source is measured faster than the original."""
    effort: str
    """How much was spent to find it."""
    evidence: dict[str, Any] = {}
    """All else that the result states, for JSON."""
    made: float = msgspec.field(default_factory=time.time)
    """When, in seconds since 1970."""

    @cached_property
    def id(self) -> str:
        """What a user calls it: the digits of its key's digest."""
        return self.key.digest.hex()

    @property
    def speedup(self) -> float:
        """Over the original as it is, by paired rounds where those are known."""
        ratio = self.timings.original / self.timings.answer
        return float(self.evidence.get("speedup", ratio))

    @property
    def date(self) -> str:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.made))

    @property
    def file_name(self) -> str:
        """A module's name that tells answers apart."""
        return f"{re.sub(r'[^0-9A-Za-z_]', '_', self.name)}_{self.id[:8]}.py"

    def text(self) -> str:
        """The source, below comments that say what it is."""
        head = [
            f"{self.name}({', '.join(self.key.types)}) on {self.key.device}",
            f"found {self.date} with jax {self.key.jax}, jaxlib {self.key.jaxlib},"
            f" effort {self.effort}",
            *self._timed(),
            *self.verdict,
        ]
        lines = [line for text in head for line in text.splitlines()]
        return "\n".join(f"# {line}".rstrip() for line in lines) + f"\n\n{self.source.strip()}\n"

    def _timed(self) -> list[str]:
        one = self.timings
        ways = {"original": one.original, "best plain JAX": one.plain, "this": one.answer}
        told = ", ".join(f"{way} {seconds * 1e6:.4g} us" for way, seconds in ways.items())
        noise = f"{told}; the original against itself {one.noise:.3g}x"
        return [noise if self.faster else f"{noise}; nothing faster was found"]
