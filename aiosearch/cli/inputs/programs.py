"""Tensor programs by what a command names: a built-in, a file, or a JAX function."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from ...arguments import nearest
from ...capture.jax_types import Function, PyTree
from ...tensor import DType, LabelError, Program, TensorError, TensorType, Term
from ...tensor.files import from_json
from ...tensor.labels import check_labels
from ...tensor.programs import BUILTINS, Builtin
from ...tensor.terms import SIZES
from ...tensor.text import parse
from ...tensor.types import ARRAY_NAMES
from ..output.streams import UsageError
from . import objects
from .fields import split
from .values import is_file

if TYPE_CHECKING:
    from ...capture import Captured, JaxFunction

Runs: TypeAlias = "JaxFunction | Program"

StaticValue: TypeAlias = "object"
"""The value of an argument that is no array: a number, a truth value, a text, a tuple or a key."""

Statics: TypeAlias = "Mapping[str, StaticValue]"
"""Such values by the names of their arguments."""

NO_STATICS: Statics = MappingProxyType({})

_KEY = re.compile(r"key\((\d+)\)")
_ARGUMENT = re.compile(r"(\w+)\[\s*(\d+(?:\s*,\s*\d+)*)?\s*\]")
_TYPES = {name: dtype for dtype, long in ARRAY_NAMES.items() for name in (dtype.value, long)}
_FLOATING = ("f64", "f32", "f16", "bf16")
USUAL = DType.BF16
"""The element type of built-in programs where none is said."""


@dataclass(frozen=True)
class ProgramPair:
    """Two programs of the same inputs."""

    one: Program
    two: Program
    held: tuple[str, ...]
    """The last inputs: arrays that functions closed over."""


def sizes(flags: Sequence[str]) -> dict[str, int]:
    """What `--shape NAME=N` says, once for each."""
    sizes_by_name = {}
    for name, text in split(flags, "--shape").items():
        if not text.isdecimal():
            raise UsageError(f"--shape {name}={text}: a size is a whole number")
        _require_size(int(text), f"--shape {name}={text}")
        sizes_by_name[name] = int(text)
    return sizes_by_name


def types(texts: Sequence[str]) -> list[TensorType]:
    """What `--arg f32[16,4096]` says, once for each."""
    return [_type(text, text) for text in texts]


def static_values(texts: Sequence[str]) -> tuple[list[str], Statics]:
    """What `--arg` says of types, and the values of `--arg n=3`: arguments that are no arrays.

    A value is a number, true, false, a text in quotes or the key of a seed, `key(0)`.
    """
    rest: list[str] = []
    values: dict[str, StaticValue] = {}
    for text in texts:
        name, equals, literal = text.partition("=")
        if not equals or _ARGUMENT.fullmatch(literal.strip()):
            rest.append(text)
            continue
        if name in values:
            raise UsageError(f"--arg gives {name} twice")
        values[name] = _static_value(text, literal.strip())
    return rest, values


def _static_value(flag: str, literal: str) -> StaticValue:
    if key := _KEY.fullmatch(literal):
        import jax

        return jax.random.key(int(key[1]))
    try:
        value: StaticValue = json.loads(literal)
    except ValueError:
        raise UsageError(
            f"--arg {flag}: write a type, as f32[16,4096], or the value of an argument that is no"
            ' array: a number, true, false, "text" or key(0)'
        ) from None
    return tuple(value) if isinstance(value, list) else value


def with_statics(target: str, function: Function, statics: Statics) -> Function:
    """The function of its other arguments, where some have values that stay the same.

    A `functools.partial` would have all behind the first such argument given by name.
    """
    if not statics:
        return function
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise UsageError(f"{target} does not say what its arguments are called") from None
    for name in statics:
        if name not in signature.parameters:
            close = nearest(name, signature.parameters)
            raise UsageError(f"--arg {name}=...: {target} takes no argument of that name{close}")
    free = signature.replace(
        parameters=[each for name, each in signature.parameters.items() if name not in statics]
    )

    @functools.wraps(function)
    def call(*args: PyTree, **keywords: PyTree) -> PyTree:
        values = free.bind(*args, **keywords).arguments | dict(statics)
        places = {name: values[name] for name in signature.parameters if name in values}
        complete = inspect.BoundArguments(signature, OrderedDict(places))
        return function(*complete.args, **complete.kwargs)

    call.__signature__ = free  # type: ignore[attr-defined]  # as `inspect` looks for it
    return call


def named_types(texts: Sequence[str]) -> tuple[list[TensorType], dict[str, TensorType]]:
    """The same, and what `--arg NAME=f32[16,4096]` says of arguments that are given by name."""
    placed = types([text for text in texts if "=" not in text])
    named: dict[str, TensorType] = {}
    for text in texts:
        name, equals, type_ = text.partition("=")
        if name in named:
            raise UsageError(f"--arg gives {name} twice")
        if equals:
            named[name] = _type(text, type_)
    return placed, named


def find(target: str, sizes_by_name: Mapping[str, int]) -> Program | Builtin:
    """A program of a file, or a built-in one, at the given sizes if there are any."""
    builtin = BUILTINS.get(target)
    if builtin is not None:
        return builtin.program(DType.F16, **sizes_by_name) if sizes_by_name else builtin
    path = Path(target)
    if not is_file(path):
        raise UsageError(
            f"{target!r} is no file and no built-in program{nearest(target, BUILTINS)};"
            " `aiosearch programs` lists those, and a function is module:function"
        )
    return _read(path)


def find_program(target: str, sizes_by_name: Mapping[str, int]) -> Program:
    """The same, a built-in program at its own sizes where none are given."""
    program = find(target, sizes_by_name)
    return program.program() if isinstance(program, Builtin) else program


def typed_program(target: str, sizes_by_name: Mapping[str, int], dtype: str | None) -> Program:
    """The same, a built-in program of this element type."""
    if target not in BUILTINS:
        program = find_program(target, sizes_by_name)
        require_no_dtype(target, dtype)
        return program
    if dtype is not None and dtype not in _FLOATING:
        raise UsageError(f"--dtype {dtype}: there are {', '.join(_FLOATING)}")
    return BUILTINS[target].program(dtype or USUAL, **sizes_by_name)


def require_no_dtype(target: str, dtype: str | None) -> None:
    """Refuses an element type for what has its own."""
    if dtype is not None:
        raise UsageError(f"--dtype is for built-in programs; {target} has types of its own")


def read_function(
    target: str, arguments: Sequence[TensorType], statics: Statics = NO_STATICS
) -> Program:
    """A function as a program, whose last inputs are the arrays that it closed over."""
    return _capture(target, arguments, statics).program


def program_pair(
    name_a: str,
    name_b: str,
    sizes_by_name: Mapping[str, int],
    arguments: Sequence[TensorType],
    dtype: str | None = None,
    statics: Statics = NO_STATICS,
) -> ProgramPair:
    """Two programs; a function without arguments given takes those of the other program."""
    targets = (name_a, name_b)
    programs, arguments = _programs(targets, sizes_by_name, arguments, dtype)
    functions = [name for name in dict.fromkeys(targets) if name not in programs]
    captured = {name: _capture(name, arguments, statics) for name in functions}
    held = {
        term.parameter("name"): term
        for capture in captured.values()
        for term in capture.program.inputs
        if term.parameter("name") in capture.constants
    }
    programs |= {name: capture.program for name, capture in captured.items()}
    first, second = (_with_held(programs[name], held) for name in targets)
    return ProgramPair(first, second, tuple(held))


def runnable(
    first: str,
    second: str,
    sizes_by_name: Mapping[str, int],
    arguments: Sequence[TensorType],
    dtype: str | None = None,
    statics: Statics = NO_STATICS,
) -> tuple[Runs, Runs]:
    """The same, functions to be run and not read; raises RunError where that fails."""
    from ...capture import JaxFunction

    programs, arguments = _programs((first, second), sizes_by_name, arguments, dtype)

    def runnable_of(name: str) -> Runs:
        if name in programs:
            return programs[name]
        return JaxFunction(function(name, statics), arguments, name)

    return runnable_of(first), runnable_of(second)


def input_names_of(target: str, subject: Runs) -> list[str]:
    """What the inputs of a program are called, or the parameters of a function."""
    if isinstance(subject, Program):
        return [term.parameter("name") for term in subject.inputs]
    count = len(subject.inputs)
    try:
        names = list(inspect.signature(function(target)).parameters)
    except ValueError:
        names = []
    return [names[at] if at < len(names) else str(at) for at in range(count)]


def _programs(
    targets: tuple[str, str],
    sizes_by_name: Mapping[str, int],
    arguments: Sequence[TensorType],
    dtype: str | None,
) -> tuple[dict[str, Program], Sequence[TensorType]]:
    """Those that are no functions, and the types of arguments that functions are called with."""
    if BUILTINS.keys().isdisjoint(targets):
        require_no_dtype(" and ".join(targets), dtype)
    programs = {
        name: typed_program(name, sizes_by_name, dtype)
        if dtype is not None and name in BUILTINS
        else find_program(name, sizes_by_name)
        for name in targets
        if not is_function(name)
    }
    for name, program in programs.items():
        _check_labels(name, program)
    if arguments or len(programs) == len(set(targets)):
        return programs, arguments
    if not programs:
        names = " and ".join(targets)
        raise UsageError(f"{names} need the types of their arguments: --arg f32[16,4096]")
    (single,) = programs.values()
    return programs, [term.type for term in single.inputs]


def _check_labels(name: str, program: Program) -> None:
    """Labels are types: a map that pairs a row with a feature does not fit either."""
    try:
        check_labels(program)
    except LabelError as error:
        raise UsageError(f"{name}: {error}") from None


def _with_held(program: Program, held: Mapping[str, Term]) -> Program:
    arguments = [term for term in program.inputs if term not in held.values()]
    return Program(program.name, (*arguments, *held.values()), program.outputs)


def is_function(target: str) -> bool:
    """Whether it names a function, and no built-in program and no file."""
    return ":" in target and target not in BUILTINS and not is_file(target)


def _capture(
    target: str, arguments: Sequence[TensorType], statics: Statics = NO_STATICS
) -> Captured:
    from ...capture import capture
    from ...capture.errors import tracing_hint
    from ...capture.jax_function import placeholders, precision
    from ...capture.user_frames import user_frame

    traced = function(target, statics)
    try:
        with precision(arguments):
            return capture(traced, *placeholders(arguments))
    except TensorError:
        raise
    except Exception as error:
        shown = ", ".join(map(str, arguments))
        where = f"{user_frame(error)}{tracing_hint(error)}"
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"{target}({shown}) cannot be traced: {type(error).__name__}: {reason}{where}"
        ) from error


def function(target: str, statics: Statics = NO_STATICS) -> Function:
    """The function that a target names, of all arguments but `statics`; raises UsageError."""
    value = objects.find(target, objects.functions)
    if not callable(value):
        raise UsageError(f"{target} is no function")
    return with_statics(target, value, statics)


def _type(flag: str, text: str) -> TensorType:
    """The type in a text, which is a part of what was given."""
    match = _ARGUMENT.fullmatch(text.strip())
    if match is None or match[1] not in _TYPES:
        dtypes = ", ".join(dict.fromkeys(_TYPES.values()))
        crossed = re.sub(r"(?<=\d)\s*[xX*]\s*(?=\d)", ",", text)
        meant = f"; {crossed} is meant?" if crossed != text else ""
        if match is not None:
            meant = f"; there is no element type {match[1]}"
        raise UsageError(f"--arg {flag}: write it as f32[16,4096], of {dtypes}{meant}")
    shape = tuple(int(size) for size in match[2].split(",")) if match[2] else ()
    for size in shape:
        _require_size(size, f"--arg {flag}")
    return TensorType(_TYPES[match[1]], shape)


def _require_size(size: int, where: str) -> None:
    if size >= SIZES:
        raise UsageError(f"{where}: {size} is too large for a size; one is below {SIZES}")


def _read(path: Path) -> Program:
    if path.suffix == ".py":
        raise UsageError(f"{path} is a file of Python; name the function in it: {path}:f")
    try:
        data = path.read_bytes()
        if data.lstrip()[:1] == b"{":
            return from_json(data)
        return parse(data.decode())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is neither text nor JSON") from None
    except TensorError as error:
        raise UsageError(f"{path}: {error}") from None
