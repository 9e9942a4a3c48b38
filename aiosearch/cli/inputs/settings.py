"""The settings of a search, and where each one comes from.

A flag overrides an environment variable, that overrides the nearest pyproject.toml, and that
overrides the default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...arguments import nearest
from ...display.tables import table
from ...orders import ORDERS
from ..output.streams import UsageError
from . import values
from .values import RawValue, is_file

TABLE = "[tool.aiosearch]"
PREFIX = "AIOSEARCH_"
RESERVED = {"AIOSEARCH_FAULT"}
"""Variables that are none of ours: this one is for the engine's crash tests."""


@dataclass(frozen=True)
class SettingSource:
    """One thing that may be set by a flag, a variable or a key of pyproject.toml."""

    name: str
    metavar: str
    help: str
    read: values.Reader
    expects: str
    default: RawValue = None

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace("-", "_")


@dataclass(frozen=True)
class Chosen:
    """A setting's value and who chose it."""

    value: RawValue
    origin: str


_ORDERS = ", ".join(ORDERS)
_COUNT = "a whole number, 1 or more"

SETTINGS: tuple[SettingSource, ...] = (
    SettingSource(
        "strategy",
        "NAME",
        "who explores what; `aiosearch strategies` lists them",
        values.text,
        "a strategy's name",
        "queue",
    ),
    SettingSource(
        "order",
        "NAME",
        f"{_ORDERS}; by default the natural one for the problem",
        values.text,
        f"one of {_ORDERS}",
    ),
    SettingSource(
        "workers",
        "N",
        "worker processes, 0 for none; by default one per core",
        values.whole(0),
        "a whole number, 0 or more",
    ),
    SettingSource(
        "seed",
        "N",
        "seed of the strategy, and of the problem where it has a field `seed` that --set leaves",
        values.whole(None),
        "a whole number",
    ),
    SettingSource(
        "on-unknown",
        "WHAT",
        "a node that z3 cannot decide: defer it to the end, keep it or drop it",
        values.choice_of(("defer", "keep", "drop")),
        "one of defer, keep, drop",
        "defer",
    ),
    SettingSource(
        "on-error",
        "WHAT",
        "when the problem raises: raise and end, or skip the subtree",
        values.choice_of(("raise", "skip")),
        "one of raise, skip",
        "raise",
    ),
    SettingSource(
        "seconds",
        "S",
        "stop after this time, that before a resume included",
        values.positive,
        "a number of seconds above 0",
    ),
    SettingSource("nodes", "N", "stop after exploring so many nodes", values.whole(1), _COUNT),
    SettingSource("solutions", "N", "stop at so many distinct solutions", values.whole(1), _COUNT),
    SettingSource(
        "memory",
        "SIZE",
        "stop when all processes together use more, such as 2GB or 512MiB",
        values.size,
        "a size such as 2GB or 512MiB",
    ),
    SettingSource("checks", "N", "stop after asking z3 so many questions", values.whole(1), _COUNT),
    SettingSource(
        "cache",
        "PATH",
        "where z3's verdicts are kept; `off` for nowhere",
        values.cache,
        "a path, or `off`",
        "default",
    ),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}


def settle(flags: Mapping[str, RawValue], journal: Mapping[str, Chosen] = {}) -> dict[str, Chosen]:
    """Gives every setting with its origin; raises UsageError where one is wrong.

    `flags` are those that were given; what a resumed journal says comes right after them.
    """
    chosen = {setting.name: Chosen(setting.default, "default") for setting in SETTINGS}
    chosen.update(from_pyproject(Path.cwd()))
    chosen.update(from_environment(os.environ))
    chosen.update(journal)
    for name, text in flags.items():
        chosen[name] = _read(BY_NAME[name], text, f"--{name}")
    return chosen


def show_settings(settings: Mapping[str, Chosen]) -> str:
    """Lists each setting with its value and its origin."""
    rows = [("setting", "value", "from")]
    rows += [
        (name, "" if chosen.value is None else str(chosen.value), chosen.origin)
        for name, chosen in settings.items()
    ]
    return table(rows)


def from_environment(environment: Mapping[str, str]) -> dict[str, Chosen]:
    """Reads the AIOSEARCH_ variables; an empty one counts as unset."""
    by_variable = {setting.variable: setting for setting in SETTINGS}
    chosen = {}
    for variable, value in environment.items():
        if not variable.startswith(PREFIX) or variable in RESERVED or not value:
            continue
        if variable not in by_variable:
            raise UsageError(
                f"the environment variable {variable} is no setting"
                f"{nearest(variable, by_variable)}; unset it, or use one of "
                + ", ".join(by_variable)
            )
        setting = by_variable[variable]
        chosen[setting.name] = _read(setting, value, variable)
    return chosen


def from_pyproject(folder: Path) -> dict[str, Chosen]:
    """Reads `[tool.aiosearch]` of the nearest pyproject.toml, from `folder` upwards."""
    for parent in (folder, *folder.parents):
        path = parent / "pyproject.toml"
        if is_file(path):
            return _from_table(path, _load_table(path))
    return {}


def _load_table(path: Path) -> Mapping[str, RawValue]:
    import tomllib  # 10 ms that only a search needs

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
        table = table.get("aiosearch", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot read the settings in {path}: {error}") from None
    if not isinstance(table, dict):
        raise UsageError(f"{TABLE} in {path} must be a table, not {table!r}")
    return table


def _from_table(path: Path, table: Mapping[str, RawValue]) -> dict[str, Chosen]:
    chosen = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name not in BY_NAME:
            raise UsageError(
                f"{TABLE} in {path} sets {key!r}, which is no setting{nearest(name, BY_NAME)};"
                f" remove it, or use one of {', '.join(BY_NAME)}"
            )
        read = _read(BY_NAME[name], value, f"{key} in {TABLE} of {path}")
        if isinstance(read.value, Path):
            read = Chosen(path.parent / read.value, read.origin)
        chosen[name] = read
    return chosen


def _read(setting: SettingSource, value: RawValue, origin: str) -> Chosen:
    try:
        return Chosen(setting.read(value), origin)
    except (ValueError, TypeError):
        raise UsageError(f"{origin} must be {setting.expects}, not {value!r}") from None
