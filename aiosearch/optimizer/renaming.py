"""The functions of a source by other names, so that several sources can stand in one file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping


def renamed(source: str, names: Mapping[str, str], own: str, other: str) -> str:
    """The source with these functions by other names, and what `own` calls named after `other`.

    Those of `names` are only defined: none of them is called by another. Kernels that a function
    calls are, and so is the name that a kernel has for who looks at a device.
    """
    called = [] if own == other else _functions(source)
    helpers = {one: _after(one, own, other) for one in called if one not in names}

    def defined(found: re.Match[str]) -> str:
        return f"def {names.get(found[1], found[1])}"

    found = re.sub(r"^def (\w+)", defined, source, flags=re.MULTILINE)
    return _used(found, helpers) if helpers else found


def _after(helper: str, own: str, other: str) -> str:
    """A helper's name is underscored, as that of nothing else is; a lone kernel's is `own`'s."""
    rest = "kernel" if helper == f"_{own}" else helper.removeprefix(f"_{own}_").strip("_")
    return f"_{other}_{rest}"


def _used(source: str, helpers: Mapping[str, str]) -> str:
    """With each of these by its other name, wherever it is named."""
    told = {f'"{one.lstrip("_")}"': f'"{other.lstrip("_")}"' for one, other in helpers.items()}
    every = {**helpers, **told}
    bare = "|".join(map(re.escape, _longest(helpers)))
    quoted = "|".join(map(re.escape, _longest(told)))
    return re.sub(rf"\b(?:{bare})\b|{quoted}", lambda found: every[found[0]], source)


def _longest(names: Iterable[str]) -> list[str]:
    return sorted(names, key=len, reverse=True)


def _functions(source: str) -> list[str]:
    return [one.name for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)]
