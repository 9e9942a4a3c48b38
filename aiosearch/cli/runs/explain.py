"""`aiosearch explain`: what a program or an answer becomes on its way to machine code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...arguments import nearest
from ...codegen.native import NativeError, embedded_programs, host
from ...devices import Device, device
from ...documents import Document
from ...optimizer import Answer, default_results_path, kernel_sources, why_faster
from ...pool import usable_cores
from ...tensor import Program
from ...tensor.programs import BUILTINS
from ...tensor.text import parse
from ..inputs import programs
from ..inputs.values import is_file
from ..output.files import draw_all, require_folder
from ..output.streams import Exit, UsageError, give, give_json, tell
from ..output.units import of
from .explain_steps import AbsentError, MachineCodeFunction, PallasFunction, Section, SourceFunction
from .results import answer_named, answers_in, digits_of, distinguished

if TYPE_CHECKING:
    from ..commands.explain import ExplainArguments


_HEAD = re.compile(r"^# (\w+)\((.*)\) on .*$", re.MULTILINE)
_TYPE = re.compile(r"\w+\[[\d, ]*\]")


@dataclass(frozen=True)
class ExplainedSubject:
    """What is to be explained."""

    told: tuple[str, ...]
    """What it is, a line each."""
    functions: tuple[MachineCodeFunction | SourceFunction, ...]


def subject(arguments: ExplainArguments) -> ExplainedSubject:
    """What the command line names; raises UsageError where there is no such thing."""
    name, gpu = arguments.target, device(arguments.device)
    if name in BUILTINS:
        _mention_answers(name, arguments)
    elif not is_file(name):
        answer = _answer_named(name, _store(arguments))
        _require_no_choice(arguments)
        return _answered(answer, gpu)
    elif Path(name).suffix == ".py":
        _require_no_choice(arguments)
        return _written(name, gpu)
    sizes = programs.sizes(arguments.shape)
    program = programs.typed_program(name, sizes, arguments.dtype)
    return _lowered(program, arguments.constant, gpu)


def _require_no_choice(arguments: ExplainArguments) -> None:
    """An answer is what it is."""
    for flag in ("shape", "constant", "dtype"):
        if getattr(arguments, flag):
            raise UsageError(f"--{flag} is for programs; {arguments.target} is an answer")


def _store(arguments: ExplainArguments) -> list[Answer]:
    path = Path(arguments.file).expanduser() if arguments.file else default_results_path()
    return answers_in(path)


def _answer_named(name: str, answers: Sequence[Answer]) -> Answer:
    if not any(name in answer.names or answer.id.startswith(name) for answer in answers):
        names = {*BUILTINS, *(name for answer in answers for name in answer.names)}
        raise UsageError(
            f"{name!r} is no answer, no file and no built-in program{nearest(name, names)};"
            " `aiosearch results list` and `aiosearch programs` list those"
        )
    return answer_named(answers, name)


def _mention_answers(name: str, arguments: ExplainArguments) -> None:
    """A program's name does not stand for what was found for it, which can be done without."""
    try:
        answers = _store(arguments)
    except UsageError as error:
        tell(f"{name} is the program; what optimize has found for it cannot be told: {error}")
        return
    same_name = [answer for answer in answers if name in answer.names]
    if same_name:
        ids = ", ".join(distinguished(answer, digits_of(answers)) for answer in same_name)
        tell(f"{name} is the program; what optimize has found for it goes by its id: {ids}")


def _answered(answer: Answer, gpu: Device) -> ExplainedSubject:
    if not answer.source:
        inputs = ", ".join(answer.evidence.kept or ())
        if inputs:
            raise UsageError(f"{answer.name} stands for a function of several programs: {inputs}")
        raise UsageError(
            f"{answer.name} says how a call of the function fared; what was found for it stands"
            " beside it in `aiosearch results list`"
        )
    renamed = answer.renamed(answer.function)  # so that its functions have the usual names
    bare = msgspec.structs.replace(renamed, source="", packing=None)
    comments = [line.removeprefix("# ") for line in bare.comments().splitlines()]
    program = renamed.evidence.program
    functions = (
        replace(function, reasons=tuple(why_faster(answer)), original=answer.evidence.original)
        if isinstance(function, SourceFunction) and answer.faster
        else function
        for function in _functions(
            renamed.source, [(renamed.function, renamed.key.types)], gpu, program
        )
    )
    return ExplainedSubject(tuple(comments), tuple(functions))


def _written(path: str, gpu: Device) -> ExplainedSubject:
    """A file as `optimize --emit` writes it: its comments say what is in it."""
    try:
        source = Path(path).read_text(encoding="utf-8")
        heads = list(_HEAD.finditer(source))
        types = [(head[1], tuple(_TYPE.findall(head[2]))) for head in heads]
        functions = tuple(_functions(source, types, gpu))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (SyntaxError, ValueError, NativeError) as error:
        raise UsageError(f"{path}: {error}") from None
    if not functions:
        raise UsageError(
            f"there is no answer in {path}: `aiosearch optimize --emit` writes such files"
        )
    return ExplainedSubject(tuple(head[0].removeprefix("# ") for head in heads), functions)


def _lowered(program: Program, constant: Sequence[str], gpu: Device) -> ExplainedSubject:
    names = [term.parameter("name") for term in program.inputs]
    for name in constant:
        if name not in names:
            raise UsageError(f"--constant {name}: no such input; there are {', '.join(names)}")
    threads = usable_cores()
    places = [names.index(name) for name in constant]
    sources = kernel_sources(program, host(), threads, 1, places)
    if not sources:
        raise UsageError(f"{program.name} has no kernels: nothing is computed, or no tile fits")
    about = f"{program.name} by the schedule of the best prediction, on {of(threads, 'thread')}"
    kernels = (
        MachineCodeFunction(name, carried, gpu)
        for name, carried in embedded_programs(sources[0].source)
    )
    return ExplainedSubject((about,), tuple(kernels))


def _functions(
    source: str,
    heads: Sequence[tuple[str, tuple[str, ...]]],
    gpu: Device,
    program: str | None = None,
) -> Iterator[MachineCodeFunction | SourceFunction]:
    """Of each, what is fastest: with what is made beforehand, where there is something."""
    kernels = dict(embedded_programs(source))
    for name, types in heads:
        packed = f"{name}_packed"
        fastest = packed if f"def {packed}(" in source else name
        if fastest in kernels:
            yield MachineCodeFunction(fastest, kernels[fastest], gpu)
        else:
            yield (PallasFunction if _is_pallas(source, name) else SourceFunction)(
                name, source, types, program
            )


def _is_pallas(source: str, name: str) -> bool:
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            used = [node for node in ast.walk(statement) if isinstance(node, ast.Attribute)]
            return any(node.attr == "pallas_call" for node in used)
    return False


_ALL = "all"


def run(arguments: ExplainArguments) -> int:
    """Shows the sections that are asked for, and gives the exit code."""
    sections = _sections(arguments.show)
    require_folder(arguments.svg)
    explained = subject(arguments)
    programs = [
        parse(function.program) for function in explained.functions if function.program is not None
    ]
    drawings = draw_all(arguments.svg, programs)
    if arguments.json:
        give_json(_facts(arguments.target, explained, drawings))
        return Exit.FINE
    if len(explained.functions) == len(sections) == 1:
        give(_raw_text(explained.functions[0], sections[0]))
    else:
        give("\n\n".join(_parts(explained, sections)))
    if not sections:
        tell(f"for more: --show {' or '.join(_sections_not_shown(explained))}")
    for path in drawings:
        tell(f"drew {path}")
    return Exit.FINE


def _sections(texts: Sequence[str]) -> list[Section]:
    """What is asked for, in its order; nothing for what is usual."""
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    listed = ", ".join([*Section, _ALL])
    if texts and not names:
        raise UsageError(f"--show {texts[0]!r} names nothing: there are {listed}")
    for name in names:
        if name not in (*Section, _ALL):
            raise UsageError(f"--show {name}: there are {listed}{nearest(name, Section)}")
    return [section for section in Section if section in names or _ALL in names]


def _sections_not_shown(explained: ExplainedSubject) -> list[str]:
    """What is there and was not shown."""
    there = {section for function in explained.functions for section in function.more}
    return [*(section for section in Section if section in there), _ALL]


def _raw_text(function: MachineCodeFunction | SourceFunction, section: Section) -> str:
    """A text as it is, for files and pipes."""
    try:
        return function.text(section)
    except AbsentError as why:
        raise UsageError(f"{section} of {function.name}: {why}") from None


def _parts(explained: ExplainedSubject, sections: Sequence[Section]) -> Iterator[str]:
    if explained.told:
        yield "\n".join(explained.told)
    for function in explained.functions:
        yield function.told
        for section in sections or function.usual:
            try:
                text = function.text(section)
            except AbsentError as why:
                text = f"({why})"
            yield f"-- {section} --\n{text}"


def _facts(target: str, explained: ExplainedSubject, drawings: Sequence[str]) -> Document:
    functions = [_function(function) for function in explained.functions]
    return {"target": target, "told": explained.told, "functions": functions, "drawings": drawings}


def _function(function: MachineCodeFunction | SourceFunction) -> Document:
    texts: dict[str, str | None] = {}
    absent: dict[str, str] = {}
    for section in Section:
        try:
            texts[section] = function.text(section)
        except AbsentError as why:
            absent[section] = str(why)
    return {
        "name": function.name,
        "kind": function.kind,
        **function.facts(),
        "texts": texts,
        "absent": absent,
    }
