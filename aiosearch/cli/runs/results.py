"""`aiosearch results`: the answers of optimize that are kept on disk."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ...arguments import nearest
from ...database import DamagedError, ForeignError, UnavailableError, is_there, require_ours
from ...display.tables import table, time_text
from ...documents import Document
from ...optimizer import (
    CALLED,
    FORMAT,
    WHOLE,
    Answer,
    AnswerFile,
    WorkStore,
    default_results_path,
    export,
)
from ..output.streams import Exit, UsageError, give, give_json, tell
from ..output.units import of, size

if TYPE_CHECKING:
    from ..commands.results import ResultsArguments


SHORTEST = 8
"""Digits of an id that are shown where more are not needed."""
SHOWN = 4
"""Ids that are named where a name may be any of several."""
_ENDS = {
    WHOLE: "a function of several programs, which with what is faster in it was timed as one",
    CALLED: "the function called in its user's own process; where it is no faster there, it is left"
    " as it is",
}
_ANEW = ". If this is the store, move it away: optimize makes a new one and finds its answers again"


def run(arguments: ResultsArguments) -> int:
    """Lists, shows, exports or forgets answers, and gives the exit code."""
    path = Path(arguments.file).expanduser() if arguments.file else default_results_path()
    {"list": _list, "show": _show, "export": _export, "forget": _forget}[arguments.action](
        path, arguments
    )
    return Exit.FINE


def _list(path: Path, arguments: ResultsArguments) -> None:
    answers = answers_in(path)
    if arguments.json:
        give_json([facts(answer) for answer in answers])
    elif not answers:
        give(f"no answers in {path}")
    else:
        head = (
            "id", "program", "asked for", "types", "as written", "now", "gain", "device", "jax",
            "found",
        )  # fmt: skip
        digits, unused = digits_of(answers), unused_answers(answers)
        rows = [head, *(_row(answer, digits, answer.id in unused) for answer in answers)]
        give(table(rows, right=frozenset({4, 5, 6})))
        if unused:
            give("not used: faster alone, and not in the function, which is not faster with it")
        if any(answer.is_unfinished for answer in answers):
            give("so far: from a search that was ended, and that the next call goes on with")
        for line in _explained(answers):
            give(line)
        unfinished = path.with_name(f"{path.name}.unfinished")
        more = f", and {size(_bytes(unfinished))} of work that is not finished"
        tell(
            f"{of(len(answers), 'answer')}, {size(_bytes(path))} in {path}"
            + (more if unfinished.exists() else "")
        )


def _bytes(path: Path) -> int:
    """What a database takes on disk, with what is not yet written into it."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _explained(answers: Sequence[Answer]) -> list[str]:
    """What rows stand for that are no programs; nothing where there are none."""
    names = [name for answer in answers for name in answer.names]
    return [f"{end.strip()}: {meaning}" for end, meaning in _ENDS.items() if _ends(names, end)]


def _ends(names: Sequence[str], end: str) -> bool:
    return any(name.endswith(end) for name in names)


def _show(path: Path, arguments: ResultsArguments) -> None:
    (answer,) = _answers_named(answers_in(path), [arguments.answer])
    if arguments.json:
        give_json(facts(answer))
    else:
        give(answer.text().rstrip("\n"))


def _export(path: Path, arguments: ResultsArguments) -> None:
    folder, answers = Path(arguments.folder).expanduser(), answers_in(path)
    if arguments.answers:
        answers = _answers_named(answers, arguments.answers)
    answers = [answer for answer in answers if answer.source]
    try:
        paths = export(answers, folder)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from None
    if arguments.json:
        give_json({"paths": [str(path) for path in paths]})
    else:
        give(f"wrote {of(len(paths), 'answer')} to {folder}")


def _forget(path: Path, arguments: ResultsArguments) -> None:
    ways = (
        bool(arguments.answers),
        arguments.all,
        arguments.older_than is not None,
        arguments.keep is not None,
    )
    if sum(ways) != 1:
        raise UsageError("say which answers to forget, --older-than AGE, --keep N, or --all")
    with _opened(path) as file:
        if arguments.all:
            removed = file.clear() if file is not None else 0
            with closing(WorkStore(path)) as work:
                work.forget()
        elif arguments.older_than is not None:
            removed = _remove_old(path, file, time.time() - arguments.older_than)
        elif arguments.keep is not None:
            removed = _keep(path, file, arguments.keep)
        else:
            removed = _remove(path, file, arguments.answers)
    if arguments.json:
        give_json({"path": str(path), "removed": removed})
    else:
        give(f"removed {of(removed, 'answer')} from {path}")


def _remove(path: Path, file: AnswerFile | None, names: Sequence[str]) -> int:
    named = _answers_named(_all(path, file), names)
    return file.remove(answer.key.digest for answer in named) if file is not None else 0


def _remove_old(path: Path, file: AnswerFile | None, before: float) -> int:
    """Removes what was found before a time, in seconds since 1970."""
    old = [answer for answer in _all(path, file) if answer.made < before]
    return file.remove(answer.key.digest for answer in old) if file is not None else 0


def _keep(path: Path, file: AnswerFile | None, newest: int) -> int:
    """Removes all but so many of those that were found last."""
    answers = sorted(_all(path, file), key=lambda answer: -answer.made)[newest:]
    return file.remove(answer.key.digest for answer in answers) if file is not None else 0


def answers_in(path: Path) -> list[Answer]:
    """All answers of a file, which need not be there."""
    with _opened(path) as file:
        return _all(path, file)


def _all(path: Path, file: AnswerFile | None) -> list[Answer]:
    """Those that can be read; how many cannot is told."""
    answers, damaged = file.intact() if file is not None else ([], 0)
    if damaged:
        tell(f"{path} is damaged, and {of(damaged, 'answer')} left out that cannot be read")
    return answers


def require_store(path: Path | None) -> None:
    """Refuses a file that is something else, before it is searched for what is kept there."""
    if path is None:
        return
    try:
        require_ours(path, FORMAT)
    except ForeignError as error:
        raise UsageError(
            f"--file {path} cannot be read as a store of results: {error}; name another one"
        ) from None
    except OSError:  # then nothing is kept there, which is told
        return


@contextmanager
def _opened(path: Path) -> Iterator[AnswerFile | None]:
    """The file where there is one, left as it is when it is something else or damaged."""
    try:
        with closing(AnswerFile(path)) if is_there(path) else nullcontext() as file:
            yield file
    except (DamagedError, UnavailableError) as error:
        foreign = isinstance(error, DamagedError | ForeignError) and not path.is_dir()
        raise UsageError(
            f"{path} cannot be read as a store of results: {error}; --file names another one"
            + (_ANEW if foreign else "")
        ) from error


def _answers_named(answers: Sequence[Answer], names: Sequence[str]) -> list[Answer]:
    """The answers that are meant, each once."""
    return list(
        {answer.id: answer for name in names for answer in [answer_named(answers, name)]}.values()
    )


def answer_named(answers: Sequence[Answer], name: str) -> Answer:
    """The answer of this name, or whose id begins so; raises UsageError."""
    matching = [answer for answer in answers if name in answer.names or answer.id.startswith(name)]
    if len(matching) > 1:
        digits = digits_of(answers)
        ids = ", ".join(distinguished(answer, digits) for answer in matching[:SHOWN])
        further = f" and {len(matching) - SHOWN} more" if len(matching) > SHOWN else ""
        raise UsageError(f"{name!r} may be any of {ids}{further}; name one by its id")
    if not matching:
        close = nearest(name, {name for answer in answers for name in answer.names})
        raise UsageError(f"no answer {name!r}{close}; `aiosearch results list` shows them")
    return matching[0]


def distinguished(answer: Answer, digits: int) -> str:
    """Its id, and what else tells it from answers of the same name."""
    terms = f"; {answer.key.terms}" if answer.key.terms else ""
    return f"{answer.id[:digits]} ({answer.key.inputs}{terms})"


def digits_of(answers: Sequence[Answer]) -> int:
    """How many digits of an id tell all of them apart."""
    digits = SHORTEST
    while len({answer.id[:digits] for answer in answers}) < len(answers):
        digits += 1
    return digits


def unused_answers(answers: Sequence[Answer]) -> frozenset[str]:
    """The ids of answers that stand in no function: of a program whose function was timed as a
    whole, or called, and is not faster with them."""
    unused = set[str]()
    for outcome in answers:
        ending = next((end for end in _ENDS if outcome.name.endswith(end)), None)
        if ending is None:
            continue
        kept = outcome.evidence.kept or () if ending == WHOLE else ()
        if ending == CALLED and outcome.faster:
            continue
        for answer in answers:
            if _is_part(answer, outcome.name.removesuffix(ending)) and answer.id not in kept:
                same_machine = answer.key.device == outcome.key.device
                unused |= {answer.id} if same_machine and answer.faster else set()
    return frozenset(unused)


def _is_part(answer: Answer, function: str) -> bool:
    """Whether an answer is for a program of a function, whose programs are `f`, `f_2`, `f_3`."""
    return any(re.fullmatch(rf"{re.escape(function)}(_\d+)?", name) for name in answer.names)


def _row(answer: Answer, digits: int, unused: bool) -> tuple[str, ...]:
    gain = "not used" if unused else f"{answer.speedup:.2f}x" if answer.faster else "none"
    if answer.is_unfinished and not unused:
        gain += " so far"
    return (
        answer.id[:digits],
        ", ".join(answer.names),
        answer.key.terms or "-",
        answer.key.inputs,
        time_text(answer.timings.original),
        time_text(answer.timings.answer) if answer.faster and not unused else "-",
        gain,
        answer.key.device,
        answer.key.jax,
        answer.date,
    )


def facts(answer: Answer) -> Document:
    """An answer, for JSON."""
    return {
        "id": answer.id,
        **msgspec.to_builtins(answer),
        "speedup": answer.speedup if answer.faster else None,
    }
