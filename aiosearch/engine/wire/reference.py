"""How a problem or an order reaches a worker process: by name and parameters, not as code.

    refer(Queens(8))   ObjectReference("aiosearch.workloads.queens", "Queens", parameters=msgpack)
    resolve(...)       Queens(8), equal to the first

A class that only the host can import is pickled, for processes of this machine only. Over a network
a problem must be registered by name: see `aiosearch.remote.admission`.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import re
import runpy
import sys
import types
import typing
from typing import Any

import msgspec
from msgspec import Struct

from ...errors import ProblemError


class ObjectReference(Struct, frozen=True, array_like=True):
    """Names a class and holds the parameters of one instance."""

    module: str
    qualname: str
    parameters: bytes = b""
    """The instance's fields as msgpack; empty where it has none."""
    pickled: bytes = b""
    """The instance itself, for classes that exist only inside the host; never sent over a net."""
    script: str = ""
    """The file (or `-m` module) that `run_main_again` runs, to find a class of `__main__`."""

    @property
    def name(self) -> str:
        return f"{self.module}:{self.qualname}"


def refer(instance: object) -> ObjectReference:
    """Makes the `ObjectReference` by which another process of this machine can build `instance`
    again."""
    cls = type(instance)
    script = ""
    if cls.__module__ == "__main__":
        script = main_script()
    if "<locals>" in cls.__qualname__ or (cls.__module__ == "__main__" and not script):
        return _pickled(instance, "is defined where a worker process cannot import it")
    # State without declared fields: only a pickle carries it
    if not _has_fields(cls) and getattr(instance, "__dict__", None):
        return _pickled(instance, "holds state but is no dataclass or msgspec.Struct")
    if not _has_fields(cls):
        return ObjectReference(cls.__module__, cls.__qualname__, script=script)
    try:
        parameters = msgspec.msgpack.encode(instance)
        again = msgspec.msgpack.decode(parameters, type=cls)
    except Exception as error:
        return _pickled(instance, f"has a field that cannot be encoded ({error})")
    if again != instance:
        return _pickled(instance, "changes when its fields are encoded and decoded")
    return ObjectReference(cls.__module__, cls.__qualname__, parameters, script=script)


def resolve(reference: ObjectReference) -> Any:
    """Builds the instance of an `ObjectReference` again."""
    if reference.pickled:
        import pickle

        return pickle.loads(reference.pickled)  # it came from our own host over a socket pair
    if reference.script:
        run_main_again(reference.script)
    cls: Any = importlib.import_module(reference.module)
    for part in reference.qualname.split("."):
        cls = getattr(cls, part)
    if not reference.parameters:
        return cls()
    return msgspec.msgpack.decode(reference.parameters, type=cls)


def parameters_of(instance: object) -> bytes:
    """An instance's parameters as bytes that say in another run whether it is the same problem.

    Private attributes and fields with `compare=False` are no parameters, so that a problem may
    hold a client or a connection there. Raises `ProblemError` where what is left has no text of
    its own: the address of an object in memory is another in every run.
    """
    try:
        return msgspec.msgpack.encode(instance)
    except Exception:
        parameters = _comparable(instance)
    for name, value in parameters.items():
        if _ADDRESS.search(repr(value)):
            raise ProblemError(
                type(instance).__qualname__,
                "__init__",
                f"a later run cannot tell whether its {name} is that of this one, {value!r:.80}, so"
                " that a journal could not be resumed. Keep what is no parameter, as a client, in"
                f" an attribute with an underscore (_{name}), in a field(compare=False), or in a"
                " functools.cached_property",
            )
    return repr(parameters if hasattr(instance, "__dict__") else instance).encode()


_ADDRESS = re.compile(r" at 0x[0-9a-f]+>")


def _comparable(instance: object) -> dict[str, object]:
    """The attributes that make an instance the problem that it is."""
    left_out: set[str] = set()
    if dataclasses.is_dataclass(instance):
        left_out = {field.name for field in dataclasses.fields(instance) if not field.compare}
    return {
        name: value
        for name, value in getattr(instance, "__dict__", {}).items()
        if not name.startswith("_") and name not in left_out
    }


def plain_scalar(value: object) -> object:
    """A scalar of NumPy as Python's own, for encoders; raises `NotImplementedError` otherwise.

    NumPy is not imported for it: who holds such a scalar has done so.
    """
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()  # type: ignore[attr-defined]  # every scalar of NumPy has it
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise NotImplementedError(f"Encoding objects of type {kind} is unsupported")


def _has_fields(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) or issubclass(cls, Struct)


def _pickled(instance: object, why: str) -> ObjectReference:
    cls = type(instance)
    try:
        import cloudpickle
    except ImportError:
        raise ProblemError(
            cls.__qualname__,
            "__init__",
            f"this class {why}. Make it a frozen dataclass in a module of its own, or install "
            "cloudpickle, or search with workers=0, where it is used as it is",
        ) from None
    try:
        pickled = cloudpickle.dumps(instance)
    except Exception as error:
        reason = (
            f"this class {why}, and cloudpickle cannot take it along either: {error}. Make it a"
            " frozen dataclass in a module of its own, or search with workers=0, where it is used"
            " as it is"
        )
        raise ProblemError(cls.__qualname__, "__init__", reason) from None
    return ObjectReference(cls.__module__, cls.__qualname__, pickled=pickled)


def main_script() -> str:
    """Names what this process runs as `__main__`; empty in a notebook or an interactive session."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return f"-m {spec.name}"
    file = getattr(main, "__file__", None) or ""
    return file if os.path.isfile(file) else ""  # a script read from stdin has no file


running_main_again = False
"""Whether this is a worker in the middle of `run_main_again`, where no search may start."""


def run_main_again(script: str) -> None:
    """Runs the host's main script as `__mp_main__`, so that its classes exist here too."""
    global running_main_again
    if "__mp_main__" in sys.modules:
        return
    main = types.ModuleType("__mp_main__")
    running_main_again = True
    try:
        if script.startswith("-m "):
            content = runpy.run_module(script[3:], run_name="__mp_main__", alter_sys=True)
        else:
            content = runpy.run_path(script, run_name="__mp_main__")
    finally:
        running_main_again = False
    main.__dict__.update(content)
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main


def return_type(instance: object, method: str) -> Any:
    """Reads a method's return annotation; `Any` where there is none."""
    function = getattr(instance, method, None)
    try:
        hints = typing.get_type_hints(function)
    except Exception:
        return Any
    return hints.get("return", Any)


def element_type(annotation: Any) -> Any:
    """The `X` of `Iterable[X]`, `list[X]`, `tuple[X, ...]` and the like."""
    arguments = typing.get_args(annotation)
    return arguments[0] if arguments else Any
