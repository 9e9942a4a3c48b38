"""The problem to search: built from its name and fields, or taken from a journal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

import msgspec
from msgspec import Struct

from ...engine.journal.records import JournalHeader
from ...orders import ORDERS
from ..output.streams import UsageError
from . import objects
from .fields import fields_of, listing, values_for
from .objects import UserObject, UserProblem
from .settings import Chosen
from .values import RawValue


def build(target: str, texts: Mapping[str, str], seed: int | None) -> UserProblem:
    """Makes the problem that `target` names: a class, an instance, or a function that gives one;
    a search of the ladder, such as `T1`; or an installed problem by its entry point.

    `texts` sets fields; `seed` too, where the problem has such a field and `texts` does not.
    """
    if ":" not in target:
        ladder = ladder_problems()
        if target in ladder:
            if texts:
                raise UsageError(
                    f"--set changes a problem, and {target} of the ladder stays as it is"
                )
            return ladder[target]
        target = _installed_class(target) or target
    factory = objects.find(target)
    if isinstance(factory, type):
        return _construct(factory, _all_values(factory, texts, seed))
    problem = _call(target, factory) if _is_factory(factory) else factory
    changes = _all_values(type(problem), texts, seed)
    return _replace(problem, changes) if changes else problem


def ladder_problems() -> dict[str, UserProblem]:
    """The searches whose counts are known, by name."""
    from ...lab.ladder import RUNGS
    from ...workloads.uts import TREES

    ladder: dict[str, UserProblem] = {name: tree.problem for name, tree in TREES.items()}
    return ladder | {name: rung.problem for name, rung in RUNGS.items()}


def _installed_class(name: str) -> str | None:
    """The `module:Class` of the entry point that has this name."""
    from ...remote.admission import GROUP

    points = entry_points(group=GROUP, name=name)
    return next((point.value for point in points), None)


def from_journal(path: Path) -> tuple[UserProblem, dict[str, Chosen]]:
    """Gives the problem of a journal, and the settings that its search had."""
    from ...engine.journal.replay import read_header

    header = read_header(path)
    return _restore(path, header), _settings(path, header)


def unshared(problem: UserProblem) -> str:
    """Why other machines do not run a problem; nothing where they do."""
    from ...remote.admission import GROUP, installed  # for searches that spread

    kind = type(problem)
    if installed(f"{kind.__module__}:{kind.__qualname__}"):
        return ""
    return f"{kind.__qualname__} has no entry point {GROUP}, and others run no other problem"


def _all_values(cls: type, texts: Mapping[str, str], seed: int | None) -> dict[str, RawValue]:
    values = values_for(cls, texts, "--set")
    if seed is not None and "seed" not in texts and "seed" in (fields_of(cls) or {}):
        values |= values_for(cls, {"seed": str(seed)}, "--seed")
    return values


def _construct(cls: type, values: Mapping[str, RawValue]) -> UserProblem:
    fields = fields_of(cls) or {}
    lacking = [
        str(field) for name, field in fields.items() if not field.default and name not in values
    ]
    if lacking:
        raise UsageError(
            f"{cls.__qualname__} needs --set for {', '.join(lacking)}; {listing(fields)}"
        )
    try:
        return cls(**values)
    except Exception as error:
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
        raise _refused(f"{cls.__qualname__}({shown})", error) from error


def _replace(problem: UserProblem, changes: Mapping[str, RawValue]) -> UserProblem:
    try:
        if isinstance(problem, Struct):
            return msgspec.structs.replace(problem, **changes)
        return dataclasses.replace(problem, **changes)
    except Exception as error:
        raise _refused(repr(problem), error) from error


def _is_factory(candidate: UserObject) -> bool:
    return callable(candidate) and not all(hasattr(candidate, method) for method in objects.METHODS)


def _call(target: str, factory: UserObject) -> UserProblem:
    try:
        return factory()
    except Exception as error:
        raise _refused(f"{target}()", error) from error


def _refused(what: str, error: Exception) -> UsageError:
    return UsageError(f"{what} cannot be made: {type(error).__name__}: {error}")


def _restore(path: Path, header: JournalHeader) -> UserProblem:
    if header.problem.startswith("__main__:") or "<locals>" in header.problem:
        raise UsageError(
            f"the problem {header.problem} of {path} is defined in a script, which alone can resume"
            " it: run that script again, with resume=True"
        )
    try:
        cls = objects.find(header.problem)
    except UsageError as error:
        raise UsageError(
            f"cannot find the problem of {path}: {error}; run this in its folder, or name it:"
            f" aiosearch search path/to/file.py:{header.problem.partition(':')[2]}"
            f" --journal {path} --resume"
        ) from None
    if fields_of(cls) is None:
        return _construct(cls, {})
    try:
        return msgspec.msgpack.decode(header.parameters, type=cls)
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"the problem of {path}, {header.parameters_text}, is not what"
            f" {header.problem} is today: {error}"
        ) from None


def _settings(path: Path, header: JournalHeader) -> dict[str, Chosen]:
    names = {order.__name__: name for name, order in ORDERS.items()}
    chosen = {
        "strategy": header.strategy,
        "seed": header.seed,
        "order": names.get(header.order, header.order),
    }
    return {name: Chosen(value, f"{name} of the journal {path}") for name, value in chosen.items()}
