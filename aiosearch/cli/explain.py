"""`aiosearch explain`: what a program or an answer becomes on its way to machine code."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from ..arguments import nearest
from ..tensor.text import parse
from .drawings import draw_all, require_folder
from .exits import Exit
from .explainable import Subject, subject
from .explained import AbsentError, Kernels, Plain, Section
from .output import give, give_json, tell
from .usage import UsageError

_ALL = "all"


def run(arguments: argparse.Namespace) -> int:
    """Shows the sections that are asked for, and gives the exit code."""
    wanted = _wanted(arguments.show)
    require_folder(arguments.svg)
    found = subject(arguments)
    programs = [parse(one.program) for one in found.functions if one.program is not None]
    drawings = draw_all(arguments.svg, programs)
    if arguments.json:
        give_json(_facts(arguments.target, found, drawings))
        return Exit.FINE
    if len(found.functions) == len(wanted) == 1:
        give(_alone(found.functions[0], wanted[0]))
    else:
        give("\n\n".join(_parts(found, wanted)))
    if not wanted:
        tell(f"for more: --show {' or '.join(_more(found))}")
    for path in drawings:
        tell(f"drew {path}")
    return Exit.FINE


def _wanted(given: Sequence[str]) -> list[Section]:
    """What is asked for, in its order; nothing for what is usual."""
    names = [name.strip() for text in given for name in text.split(",") if name.strip()]
    listed = ", ".join([*Section, _ALL])
    if given and not names:
        raise UsageError(f"--show {given[0]!r} names nothing: there are {listed}")
    for name in names:
        if name not in (*Section, _ALL):
            raise UsageError(f"--show {name}: there are {listed}{nearest(name, Section)}")
    return [one for one in Section if one in names or _ALL in names]


def _more(found: Subject) -> list[str]:
    """What is there and was not shown."""
    there = {section for function in found.functions for section in function.more}
    return [*(one for one in Section if one in there), _ALL]


def _alone(function: Kernels | Plain, section: Section) -> str:
    """A text as it is, for files and pipes."""
    try:
        return function.text(section)
    except AbsentError as why:
        raise UsageError(f"{section} of {function.name}: {why}") from None


def _parts(found: Subject, wanted: Sequence[Section]) -> Iterator[str]:
    if found.told:
        yield "\n".join(found.told)
    for function in found.functions:
        yield function.told
        for section in wanted or function.usual:
            try:
                text = function.text(section)
            except AbsentError as why:
                text = f"({why})"
            yield f"-- {section} --\n{text}"


def _facts(target: str, found: Subject, drawings: Sequence[str]) -> dict[str, Any]:
    functions = [_function(one) for one in found.functions]
    return {"target": target, "told": found.told, "functions": functions, "drawings": drawings}


def _function(one: Kernels | Plain) -> dict[str, Any]:
    texts: dict[str, str | None] = {}
    absent: dict[str, str] = {}
    for section in Section:
        try:
            texts[section] = one.text(section)
        except AbsentError as why:
            absent[section] = str(why)
    return {"name": one.name, "kind": one.kind, **one.facts(), "texts": texts, "absent": absent}
