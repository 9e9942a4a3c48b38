"""Trees of arguments and results as Python says them."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pprint import pformat
from typing import Any

import jax
from jax.tree_util import DictKey, GetAttrKey, PyTreeDef, SequenceKey

from .errors import OptimizeError
from .folding import WIDTH


@dataclass(frozen=True)
class _Text:
    """What is said as it is."""

    text: str

    def __repr__(self) -> str:
        return self.text


def spelled(tree: PyTreeDef, texts: Sequence[str]) -> list[str]:
    """A tree with these texts for its leaves, in lines.

    Raises OptimizeError where something in it is of a type that is not Python's own.
    """
    made = jax.tree_util.tree_unflatten(tree, map(_Text, texts))
    _demand(made)
    return pformat(made, width=WIDTH - 12, compact=True, sort_dicts=False).splitlines()


def _demand(node: Any) -> None:
    if type(node) is dict:
        for key, value in node.items():
            _demand_key(key)
            _demand(value)
    elif type(node) in (list, tuple):
        for value in node:
            _demand(value)
    elif node is not None and not isinstance(node, _Text):
        own = type(node).__qualname__
        raise OptimizeError(
            f"a part of its result is of the type {own}, and no dict, list or tuple"
        )


def _demand_key(key: Any) -> None:
    with suppress(ValueError, SyntaxError):
        if literal_eval(repr(key)) == key:
            return
    raise OptimizeError(f"{key!r} is a key of a dict, and no text says it")


def way(path: Sequence[Any]) -> str:
    """How the leaf at the end of a path is taken from the argument that it is in."""
    return "".join(map(_step, path))


def _step(step: Any) -> str:
    match step:
        case SequenceKey(idx=at):
            return f"[{at}]"
        case DictKey(key=key):
            _demand_key(key)
            return f"[{key!r}]"
        case GetAttrKey(name=name):
            return f".{name}"
    raise OptimizeError(f"it takes a tree whose leaf {step} only its own code finds")
