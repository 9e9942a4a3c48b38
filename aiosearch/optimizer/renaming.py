"""The functions of a source by other names, so that several sources can stand in one file."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from .emit import free_name


def renamed(source: str, names: Mapping[str, str], own: str, other: str) -> str:
    """The source with these functions by other names, and what `own` calls named after `other`.

    Those of `names` are only defined: none of them is called by another. Kernels that a function
    calls are, and so is the name that a kernel has for who looks at a device.
    """
    called = [] if own == other else _functions(source)
    taken = {*names, *names.values()}
    helpers = {one: _free(_after(one, own, other), taken) for one in called if one not in names}

    def defined(found: re.Match[str]) -> str:
        return f"def {names.get(found[1], found[1])}"

    found = _used(source, helpers) if helpers else source
    return re.sub(r"^def (\w+)", defined, found, flags=re.MULTILINE)


def with_parameters(source: str, function: str, wanted: Sequence[str]) -> str:
    """The source, a function's first parameters by these names, so that it is called by them.

    What else has such a name in the function gets another one. A name that is used for what lies
    outside, such as `jnp`, is not to be had.
    """
    body = [one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)]
    inner = next(one for one in body if one.name == function)
    own = [one.arg for one in (*inner.args.args, *inner.args.kwonlyargs)][: len(wanted)]
    if own == list(wanted):
        return source
    places = list(_variables(inner))
    local = {place.name for place in places if place.binds}
    outside = {place.name for place in places} - local | _fixed(inner) - {*own}
    taken = {*local, *outside, *keyword.kwlist}
    names: dict[str, str] = {}
    for old, new in zip(own, wanted, strict=True):
        fits = new.isidentifier() and new not in {*outside, *names.values(), *keyword.kwlist}
        names[old] = new if fits else free_name(new, taken)
    taken |= {*names.values()}
    for one in sorted(local.intersection(names.values()) - names.keys()):
        names[one] = free_name(one, taken)
    return _replaced(source, [place for place in places if place.name in names], names)


class _Place(NamedTuple):
    """Where a variable is named: its line, the bytes before it there, and itself."""

    line: int
    column: int
    name: str
    binds: bool


def _variables(function: ast.FunctionDef) -> Iterator[_Place]:
    for node in ast.walk(function):
        match node:
            case ast.Name(id=name, lineno=line, col_offset=column, ctx=context):
                yield _Place(line, column, name, isinstance(context, ast.Store))
            case ast.arg(arg=name, lineno=line, col_offset=column):
                yield _Place(line, column, name, binds=True)


def _fixed(function: ast.FunctionDef) -> set[str]:
    """Names in a function that do not change: of functions, imports, and options of a call."""
    found = set()
    for node in ast.walk(function):
        match node:
            case ast.FunctionDef(name=name, args=args):
                found |= {name, *(one.arg for one in args.kwonlyargs)}
            case ast.alias(name=name, asname=other):
                found.add(other or name)
    return found


def _replaced(source: str, places: Iterable[_Place], names: Mapping[str, str]) -> str:
    lines = [line.encode() for line in source.split("\n")]
    for line, column, name, _ in sorted(places, reverse=True):
        text = lines[line - 1]
        rest = text[column + len(name.encode()) :]
        lines[line - 1] = text[:column] + names[name].encode() + rest
    return b"\n".join(lines).decode()


def _free(wanted: str, taken: set[str]) -> str:
    """An underscored name that is not taken, which it is from then on."""
    found = wanted
    while found in taken:
        found = f"_{found}"
    taken.add(found)
    return found


def _after(helper: str, own: str, other: str) -> str:
    """A helper's name is underscored; a lone kernel's is `own`'s."""
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
