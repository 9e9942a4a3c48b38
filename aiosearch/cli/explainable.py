"""From what `aiosearch explain` is given to functions: of an answer, of a file, or of a program."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..arguments import nearest
from ..codegen.native.errors import NativeError
from ..codegen.native.lines import inside
from ..codegen.native.machine import host
from ..devices import Device, device
from ..optimizer.answers import Answer
from ..optimizer.kernels import kernel_sources
from ..optimizer.results import default_results_path
from ..pool import usable_cores
from ..tensor import Program
from ..tensor.programs import BUILTINS
from . import targets
from .explained import Kernels, Pallas, Plain
from .figures import of
from .named import is_file
from .output import tell
from .results import answers_in, digits_of, meant, told_apart
from .usage import UsageError

_HEAD = re.compile(r"^# (\w+)\((.*)\) on .*$", re.MULTILINE)
_TYPE = re.compile(r"\w+\[[\d, ]*\]")


@dataclass(frozen=True)
class Subject:
    """What is to be explained."""

    told: tuple[str, ...]
    """What it is, a line each."""
    functions: tuple[Kernels | Plain, ...]


def subject(arguments: argparse.Namespace) -> Subject:
    """What the command line names; raises UsageError where there is no such thing."""
    name, gpu = arguments.target, device(arguments.device)
    if name in BUILTINS:
        _tell_of_answers(name, arguments)
    elif not is_file(name):
        answer = _found(name, _store(arguments))
        _require_no_choice(arguments)
        return _answered(answer, gpu)
    elif Path(name).suffix == ".py":
        _require_no_choice(arguments)
        return _written(name, gpu)
    sizes = targets.sizes(arguments.shape)
    program = targets.typed_program(name, sizes, arguments.dtype)
    return _lowered(program, arguments.constant, gpu)


def _require_no_choice(arguments: argparse.Namespace) -> None:
    """An answer is what it is."""
    for flag in ("shape", "constant", "dtype"):
        if getattr(arguments, flag):
            raise UsageError(f"--{flag} is for programs; {arguments.target} is an answer")


def _store(arguments: argparse.Namespace) -> list[Answer]:
    path = Path(arguments.file).expanduser() if arguments.file else default_results_path()
    return answers_in(path)


def _found(name: str, answers: Sequence[Answer]) -> Answer:
    if not any(name in one.names or one.id.startswith(name) for one in answers):
        known = {*BUILTINS, *(name for one in answers for name in one.names)}
        raise UsageError(
            f"{name!r} is no answer, no file and no built-in program{nearest(name, known)};"
            " `aiosearch results list` and `aiosearch programs` list those"
        )
    return meant(answers, name)


def _tell_of_answers(name: str, arguments: argparse.Namespace) -> None:
    """A program's name does not stand for what was found for it, which can be done without."""
    try:
        answers = _store(arguments)
    except UsageError as error:
        tell(f"{name} is the program; what optimize has found for it cannot be told: {error}")
        return
    own = [one for one in answers if name in one.names]
    if own:
        ids = ", ".join(told_apart(one, digits_of(answers)) for one in own)
        tell(f"{name} is the program; what optimize has found for it goes by its id: {ids}")


def _answered(answer: Answer, gpu: Device) -> Subject:
    if not answer.source:
        kept = ", ".join(answer.evidence.get("kept", ()))
        if kept:
            raise UsageError(f"{answer.name} stands for a function of several programs: {kept}")
        raise UsageError(
            f"{answer.name} says how a call of the function fared; what was found for it stands"
            " beside it in `aiosearch results list`"
        )
    own = answer.renamed(answer.function)  # so that its functions have the usual names
    bare = msgspec.structs.replace(own, source="", packing=None)
    told = [line.removeprefix("# ") for line in bare.comments().splitlines()]
    program = own.evidence.get("program")
    found = _functions(own.source, [(own.function, own.key.types)], gpu, program)
    return Subject(tuple(told), tuple(found))


def _written(path: str, gpu: Device) -> Subject:
    """A file as `optimize --emit` writes it: its comments say what is in it."""
    try:
        source = Path(path).read_text(encoding="utf-8")
        heads = list(_HEAD.finditer(source))
        types = [(head[1], tuple(_TYPE.findall(head[2]))) for head in heads]
        found = tuple(_functions(source, types, gpu))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (SyntaxError, ValueError, NativeError) as error:
        raise UsageError(f"{path}: {error}") from None
    if not found:
        raise UsageError(
            f"there is no answer in {path}: `aiosearch optimize --emit` writes such files"
        )
    return Subject(tuple(head[0].removeprefix("# ") for head in heads), found)


def _lowered(program: Program, constant: Sequence[str], gpu: Device) -> Subject:
    names = [term.parameter("name") for term in program.inputs]
    for one in constant:
        if one not in names:
            raise UsageError(f"--constant {one}: no such input; there are {', '.join(names)}")
    threads = usable_cores()
    places = [names.index(one) for one in constant]
    found = kernel_sources(program, host(), threads, 1, places)
    if not found:
        raise UsageError(f"{program.name} has no kernels: nothing is computed, or no tile fits")
    told = f"{program.name} by the schedule of the best prediction, on {of(threads, 'thread')}"
    kernels = (Kernels(name, carried, gpu) for name, carried in inside(found[0].source))
    return Subject((told,), tuple(kernels))


def _functions(
    source: str,
    heads: Sequence[tuple[str, tuple[str, ...]]],
    gpu: Device,
    program: str | None = None,
) -> Iterator[Kernels | Plain]:
    """Of each, what is fastest: with what is made beforehand, where there is something."""
    kernels = dict(inside(source))
    for name, types in heads:
        packed = f"{name}_packed"
        fastest = packed if f"def {packed}(" in source else name
        if fastest in kernels:
            yield Kernels(fastest, kernels[fastest], gpu)
        else:
            yield (Pallas if _is_pallas(source, name) else Plain)(name, source, types, program)


def _is_pallas(source: str, name: str) -> bool:
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            used = [one for one in ast.walk(statement) if isinstance(one, ast.Attribute)]
            return any(one.attr == "pallas_call" for one in used)
    return False
