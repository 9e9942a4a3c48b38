"""Answers as optimize would keep them, for tests of what keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from aiosearch.optimizer.outcomes.answer import Answer, Key, Timings
from aiosearch.optimizer.outcomes.evidence import Evidence
from aiosearch.optimizer.outcomes.results import Results

SOURCE = '''\
"""The trace of a product."""

import jax
import jax.numpy as jnp


def trace_of_product(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.sum(a * b.T)
'''


def key(number: int = 0, **changed: Any) -> Key:
    one = Key(
        f"{number:032x}",
        ("f32[512, 512]", "f32[512, 512]"),
        "cpu: AMD EPYC, 2 cores",
        "0.10.2",
        "0.10.2",
    )
    return msgspec.structs.replace(one, **changed)


def answer(number: int = 0, **changed: Any) -> Answer:
    one = Answer(
        key(number),
        "trace_of_product",
        "trace_of_product",
        SOURCE,
        ("proved — for all shapes", "  b proof: found, by 0 rules"),
        Timings(9e-4, 8e-4, 9e-5, 1.01),
        faster=True,
        effort="quick",
        evidence=Evidence(timed_on="normal inputs"),
    )
    if "evidence" in changed:
        changed["evidence"] = msgspec.convert(changed["evidence"], Evidence)
    return msgspec.structs.replace(one, **changed)


class Remembering(Results):
    """A store that knows every answer, and which questions were asked."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, print)
        self.asked: list[tuple[str, ...]] = []

    def find(self, key: Key) -> Answer | None:
        self.asked.append(key.types)
        return answer(key=key, faster=False, effort="exhaustive")
