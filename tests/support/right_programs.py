"""Programs that are known to be right, each beside its original, at small shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testkit.programs.rewrites import REWRITES, SQUARE, small

from aiosearch.equivalence.float_referee import FloatReferee
from aiosearch.tensor import Program
from aiosearch.tensor.analysis.generalise import generalise
from aiosearch.tensor.mirage import MirageGraph, load_mugraphs, pairs
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
    yield from (case for _, case in saved_cases(GRAPHS))


def saved_cases(folder: Path) -> Iterator[tuple[str, Case]]:
    """The right graphs of those files that a folder has, and what each computes."""
    for file, name in SAVED.items():
        path = folder / f"{file}.json"
        for number, graph in enumerate(load_mugraphs(path.read_bytes()) if path.exists() else ()):
            assert isinstance(graph, MirageGraph)
            yield name, Case(f"{name}: saved {number}", *_saved(graph, name))


def _saved(graph: MirageGraph, name: str) -> tuple[Program, Program]:
    """A saved graph and its program at a small shape, in the order of inputs that fits."""
    for pair in pairs(graph, BUILTINS[name]):
        original, right = generalise([pair.reference, pair.graph]).reduced()
        if FloatReferee(original).differs(right) is False:
            return original, right
    raise ValueError(f"graph {graph.number} is no {name}")
