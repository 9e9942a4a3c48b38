"""Programs that are known to be right, each beside its original, at small shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rewrites import REWRITES, SQUARE, small

from aiosearch.equivalence.classify import Referee
from aiosearch.tensor import Program
from aiosearch.tensor.generalise import generalise
from aiosearch.tensor.mirage import MirageGraph, load_mugraphs
from aiosearch.tensor.pairing import pairs
from aiosearch.tensor.programs import BUILTINS, builtin

GRAPHS = Path(__file__).parents[1] / "data" / "mirage"
SAVED = {"lora_bs1": "lora", "norm_transformer_bs1": "ntrans"}
"""The files whose graphs are right, and what they compute."""


@dataclass(frozen=True)
class Case:
    """A right program and what it computes."""

    name: str
    original: Program
    right: Program


def cases(dtype: str = "f16") -> Iterator[Case]:
    """The built-in programs, what they are rewritten to, and the saved graphs."""
    for name in BUILTINS:
        for shape, sizes in (("", small(name)), (" square", small(name, SQUARE))):
            program = builtin(name, dtype, **sizes)
            yield Case(f"{name}{shape}", program, program)
    for rewrite in REWRITES:
        pair = rewrite.pair(dtype, **small(rewrite.original, SQUARE))
        yield Case(rewrite.name, *pair)
    for file, name in SAVED.items():
        for number, graph in enumerate(load_mugraphs((GRAPHS / f"{file}.json").read_bytes())):
            assert isinstance(graph, MirageGraph)
            yield Case(f"{name}: saved {number}", *_saved(graph, name))


def _saved(graph: MirageGraph, name: str) -> tuple[Program, Program]:
    """A saved graph and its program at a small shape, in the order of inputs that fits."""
    for pair in pairs(graph, BUILTINS[name]):
        original, right = generalise([pair.reference, pair.graph]).reduced()
        if Referee(original).differs(right) is False:
            return original, right
    raise ValueError(f"graph {graph.number} is no {name}")
