"""The fields of a problem: what `--set name=value` means."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from ...arguments import nearest
from ...documents import JsonValue
from ..output.streams import UsageError
from .values import RawValue

TypeForm: TypeAlias = Any
"""An annotation as it is evaluated: a class, `int | None`, `Any`."""


@dataclasses.dataclass(frozen=True)
class ProblemField:
    """A field that may be set."""

    name: str
    type: TypeForm
    default: str
    """As Python writes it; empty where there is none."""

    def __str__(self) -> str:
        name = getattr(self.type, "__name__", None) if isinstance(self.type, type) else None
        shown = f"{self.name}: {name or str(self.type).replace('typing.', '')}"
        return f"{shown} = {self.default}" if self.default else f"{shown} (needed)"


def fields_of(cls: type) -> dict[str, ProblemField] | None:
    """Gives the fields of a dataclass or msgspec.Struct by name; None for any other class."""
    if issubclass(cls, Struct):
        listed = [
            (field.name, _default(field.default, field.default_factory, msgspec.NODEFAULT))
            for field in msgspec.structs.fields(cls)
        ]
    elif dataclasses.is_dataclass(cls):
        listed = [
            (field.name, _default(field.default, field.default_factory, dataclasses.MISSING))
            for field in dataclasses.fields(cls)
            if field.init
        ]
    else:
        return None
    hints = _hints(cls)
    return {name: ProblemField(name, hints.get(name, Any), default) for name, default in listed}


def split(assignments: Sequence[str], flag: str) -> dict[str, str]:
    """Takes `name=value` apart; of two for one name the last one counts."""
    values = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{flag} takes name=value, not {assignment!r}")
        values[name.strip()] = value
    return values


def values_for(cls: type, texts: Mapping[str, str], flag: str) -> dict[str, RawValue]:
    """Converts what was given to the types of the class's fields."""
    if not texts:
        return {}
    fields = fields_of(cls)
    if fields is None:
        raise UsageError(
            f"{flag} needs {cls.__qualname__} to be a dataclass or a msgspec.Struct, whose fields"
            " it sets"
        )
    for name in texts:
        if name not in fields:
            raise UsageError(
                f"{cls.__qualname__} has no field {name!r}{nearest(name, fields)}; "
                + listing(fields)
            )
    return {name: convert(texts[name], fields[name], flag) for name in texts}


def listing(fields: Mapping[str, ProblemField]) -> str:
    if not fields:
        return "it has no fields"
    return "its fields are " + ", ".join(map(str, fields.values()))


def convert(text: str, field: ProblemField, flag: str) -> RawValue:
    """Reads the text as the field's type: as it stands, else as JSON."""
    if field.type is Any:
        return guess(text)
    try:
        return msgspec.convert(text, field.type, strict=False)
    except (msgspec.ValidationError, TypeError) as error:
        reason = str(error)
    try:
        return msgspec.json.decode(text, type=field.type, strict=False)
    except msgspec.ValidationError as error:
        reason = str(error)
    except (msgspec.DecodeError, TypeError):
        pass
    raise UsageError(
        f"{flag} {field.name}={text} does not fit the field {field}: {reason}; lists, tuples, true,"
        " false and null are written as in JSON"
    )


def guess(text: str) -> JsonValue:
    """Reads a value of which no type is known: JSON where it is JSON, else text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _default(default: object, factory: object, missing: object) -> str:
    if default is not missing:
        return repr(default)
    if factory is not missing:
        return f"{getattr(factory, '__name__', factory)}()"
    return ""


def _hints(cls: type) -> dict[str, TypeForm]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception:  # a name that exists for type checkers only
        return {}
