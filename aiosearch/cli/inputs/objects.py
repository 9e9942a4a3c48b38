"""Python objects by `module:name` or `path/to/file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from ...arguments import nearest
from ..output.streams import UsageError
from .values import is_file

Offer: TypeAlias = Callable[[ModuleType], str]
UserObject: TypeAlias = Any
"""What a name in a user's module stands for, before anyone has looked at it."""

UserProblem: TypeAlias = Any
"""An instance of a user's class that has at least the `METHODS` of a problem."""

METHODS = ("root", "expand", "solutions")


def find(target: str, offer: Offer | None = None) -> UserObject:
    """Imports what `target` names, the current folder included; raises UsageError.

    `offer` says what else a module has, by default problems.
    """
    where, colon, name = target.rpartition(":")
    _look_in(os.getcwd())
    if not colon or not where:
        raise UsageError(_incomplete(target))
    return attribute(load(where), name, offer)


def load(where: str) -> ModuleType:
    """Imports a module by its dotted name or by its file."""
    if where.endswith(".py") or os.sep in where:
        return _load_file(Path(where))
    if not _is_dotted_name(where):
        raise UsageError(f"{where!r} is no module; write module:Problem or path/to/file.py:Problem")
    return _import(where)


def attribute(module: ModuleType, name: str, offer: Offer | None = None) -> UserObject:
    value: UserObject = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            close = nearest(name, vars(module))
            raise UsageError(
                f"{module.__name__} has no {name!r}{close}; {(offer or _offer)(module)}"
            ) from None
    return value


def _load_file(path: Path) -> ModuleType:
    if not is_file(path):
        raise UsageError(f"there is no file {path}; the current folder is {os.getcwd()}")
    path = path.resolve()
    folder, name = path.parent, path.stem
    if name in sys.stdlib_module_names or "." in name:
        raise UsageError(
            f"{path} cannot be imported under the name {name!r}, which is taken or not a module's;"
            " rename the file"
        )
    while is_file(folder / "__init__.py"):  # then it is part of a package, and imports so
        name = f"{folder.name}.{name}"
        folder = folder.parent
    _look_in(str(folder))
    module = _import(name)
    if Path(module.__file__ or "").resolve() != path:
        raise UsageError(
            f"{path} is hidden by {module.__file__}, which is imported under the same name; rename"
            " the file"
        )
    return module


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(_missing(name, error.name)) from None
        raise _failed(name, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error


def _look_in(folder: str) -> None:
    """Lets modules be found in a folder: before the installed ones, but after Python's own.

    A file there named queue.py would break whatever needs Python's queue, in every worker too.
    """
    if folder in sys.path:
        return
    standard = os.path.dirname(os.__file__)
    standard_places = [
        at for at, path in enumerate(sys.path) if path in (standard, f"{standard}/lib-dynload")
    ]
    sys.path.insert(max(standard_places, default=-1) + 1, folder)


def _failed(name: str, error: BaseException) -> UsageError:
    reason = f"{type(error).__name__}: {error}".rstrip(": ")
    return UsageError(f"the module {name} fails when it is imported: {reason}")


def _missing(name: str, missing: str) -> str:
    """Says where a module was looked for, and what is there instead."""
    here = os.getcwd()
    parent, _, last = missing.rpartition(".")
    paths = getattr(sys.modules.get(parent), "__path__", []) if parent else [here]
    names = [module.name for module in pkgutil.iter_modules(paths)]
    where = f"the package {parent}" if parent else f"{here} or among the installed ones"
    return f"there is no module {last!r} in {where}{nearest(last, names)}"


def _incomplete(target: str) -> str:
    """Says what a target without a name or a module lacks."""
    name = target.strip(":")
    spec = _is_dotted_name(name) and importlib.util.find_spec(name.partition(".")[0])
    if spec or name.endswith(".py"):
        return f"{target!r} does not say which problem of the module; {_offer(load(name))}"
    from ...remote.admission import GROUP

    names = sorted(point.name for point in entry_points(group=GROUP))
    return (
        f"{target!r} does not name a problem{nearest(target, names)}; write module:Problem,"
        f" path/to/file.py:Problem, a search of the ladder as T1 (`aiosearch bench --help` lists"
        f" them) or what is installed: {', '.join(names)}"
    )


def _is_dotted_name(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _offer(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if _is_problem(value)]
    if not names:
        return "nothing in it has the methods root, expand and solutions of a problem"
    return f"it has {', '.join(f'{module.__name__}:{name}' for name in names)}"


def functions(module: ModuleType) -> str:
    """What an error says of the functions that a module defines."""
    defined = [
        f"{module.__name__}:{name}"
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", None) == module.__name__
    ]
    return f"it has {', '.join(defined)}" if defined else "no function is defined in it"


def _is_problem(value: UserObject) -> bool:
    return all(callable(getattr(value, method, None)) for method in METHODS)
