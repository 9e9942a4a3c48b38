"""The msgspec schema of a program's JSON document.

Struct and field names are the format: `aiosearch.program`, version 1. `files` converts between it
and `Program`.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

EXACT = 1 << 53
"""Integers up to 2^53 are JSON numbers, which every reader holds exactly.

Larger ones are strings.
"""

Whole: TypeAlias = Annotated[int, Meta(ge=-EXACT, le=EXACT)]
"""An integer that a JSON number holds exactly."""
Value: TypeAlias = "bool | Whole | float | str | list[Whole | str | None] | None"
"""A parameter's value."""


class JsonHeader(Struct, frozen=True):
    """The fields that every version begins with, read before `JsonProgram`."""

    format: str
    version: int


class JsonInput(Struct, frozen=True, forbid_unknown_fields=True):
    """An input of a program."""

    name: str
    dtype: str
    shape: list[Whole | str]
    labels: list[str | None]


class JsonStore(Struct, frozen=True, forbid_unknown_fields=True):
    """A tile by its number in the block, and the data axis of each grid axis (`map`)."""

    tile: int
    map: list[Whole | None]


class JsonBlockNode(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An operator in a block graph; operands are numbers in it, those of `load` in the program."""

    op: str
    args: list[int] = []
    params: dict[str, Value] = {}


class JsonNode(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An operator; or a `kernel` with its block graph, whose outputs are `result` nodes."""

    op: str
    args: list[int] = []
    params: dict[str, Value] = {}
    block: list[JsonBlockNode] = []
    stores: list[JsonStore] = []


class JsonProgram(Struct, frozen=True, forbid_unknown_fields=True):
    """A program: inputs are numbered from 0, `nodes` from there on."""

    format: str
    version: int
    name: str
    inputs: list[JsonInput]
    nodes: list[JsonNode]
    outputs: list[int]
