"""What all workloads share."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, get_type_hints

import msgspec
import pytest

import aiosearch.workloads
from aiosearch.workloads import RUNGS, TREES, TSP, UTS, Lopsided, Queens, Superopt, Tiny

PROBLEMS: list[Any] = [
    UTS(),
    Queens(6),
    TSP(7),
    Lopsided(),
    Tiny(),
    Superopt("P1", 3, width=8),
    Superopt("P14", 3),
    *(tree.problem for tree in TREES.values()),
    *(rung.problem for rung in RUNGS.values()),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
def test_values_travel(problem: Any, walk: Callable[[Any], Iterator[Any]]) -> None:
    """Nodes, solutions and the problem itself come back from msgpack as they were."""
    hints = [get_type_hints(getattr(type(problem), name)) for name in ("root", "solutions")]
    node_type, solutions_type = (hint["return"] for hint in hints)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(problem), type=type(problem))
    for node in islice(walk(problem), 300):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(node), type=node_type) == node
        found = problem.solutions(node)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=solutions_type) == found
        assert again.expand(node) == problem.expand(node)
    assert again == problem


def test_public_names() -> None:
    """Every public name is there, and they are sorted."""
    names = aiosearch.workloads.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(aiosearch.workloads, name) for name in names)


def test_import_is_light() -> None:
    """Importing the workloads loads neither z3 nor jax nor numpy."""
    heavy = "{'z3', 'jax', 'numpy'} & set(sys.modules)"
    script = f"import sys, aiosearch.workloads; assert not {heavy}"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("path", ["blocks:Blocks", "blocks:BlockProgram", "kernels:Kernels"])
def test_problems_that_moved_are_found_by_their_old_paths(path: str) -> None:
    """Command lines and scripts name them by the module in which they were."""
    module, _, name = path.partition(":")
    problem = getattr(importlib.import_module(f"aiosearch.workloads.{module}"), name)
    assert problem.__module__ == f"aiosearch.lab.mirage.{module}"
