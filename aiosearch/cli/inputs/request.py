"""What a user asks `aiosearch search` for, put together from flags, files and variables."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ...checks.maintenance import require_cache
from ...documents import Document
from ...errors import AiosearchError
from ...limits import Limits
from ...orders import find_order
from ...strategies import find_strategy
from ..output.streams import UsageError
from .fields import guess, split
from .objects import UserProblem
from .problems import build, from_journal
from .settings import SETTINGS, Chosen, settle

if TYPE_CHECKING:
    from ...remote.links import Listener

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """A search that can begin."""

    problem: UserProblem
    options: Document
    """What `Search` takes."""
    argv: Sequence[str]
    """The words that asked for it."""

    @property
    def journal(self) -> Path | None:
        journal: Path | None = self.options["journal"]
        return journal


def chosen_settings(
    arguments: argparse.Namespace, journal: Mapping[str, Chosen] = {}
) -> dict[str, Chosen]:
    """Gives every setting; the flags' texts are in `arguments`."""
    flags = {setting.name: getattr(arguments, setting.name, None) for setting in SETTINGS}
    return settle({name: text for name, text in flags.items() if text is not None}, journal)


def make_request(arguments: argparse.Namespace) -> Request:
    """Finds the problem and the settings; raises AiosearchError where something is wrong."""
    journal = Path(arguments.journal) if arguments.journal else None
    if arguments.resume and journal is None:
        raise UsageError("--resume needs the journal to resume from: --journal FILE")
    texts = split(arguments.set, "--set")
    if arguments.problem is not None:
        settings = chosen_settings(arguments)
        problem = build(arguments.problem, texts, settings["seed"].value)
    else:
        problem, past = from_journal(_resumed(arguments, journal))
        settings = chosen_settings(arguments, past)
    options = _options(problem, settings, split(arguments.strategy_set, "--strategy-set"))
    options |= {"journal": journal, "resume": arguments.resume}
    options |= {"listener": _listener(arguments, options["strategy"])}
    options |= {"patience": arguments.patience}
    return Request(problem, options, arguments.argv)


def _listener(arguments: argparse.Namespace, strategy: str) -> Listener | None:
    """Where other machines join: by the strategy's own transport, or by sockets."""
    if arguments.listen is None and arguments.token_file is None and strategy == "queue":
        return None
    if arguments.listen is not None and not arguments.listen.strip():
        raise UsageError("--listen takes an address, HOST:PORT, not an empty one")
    from ...remote.links import find_transport, has_transport  # for searches that spread

    transport = has_transport(strategy)
    if arguments.listen is None and not transport:
        if arguments.token_file is not None:
            raise UsageError("--token-file is for machines that join: --listen HOST:PORT")
        return None
    token = Path(arguments.token_file).expanduser() if arguments.token_file else None
    return find_transport(strategy if transport else "sockets").listener(arguments.listen, token)


def _resumed(arguments: argparse.Namespace, journal: Path | None) -> Path:
    if journal is None or not arguments.resume:
        raise UsageError(
            "name a problem, module:Problem or path/to/file.py:Problem, or resume a journal's:"
            " --journal FILE --resume"
        )
    if arguments.set:
        raise UsageError("--set changes a problem, and that of a journal stays as it is")
    return journal


def _options(
    problem: UserProblem, settings: Mapping[str, Chosen], strategy_options: Mapping[str, str]
) -> Document:
    value = {name: chosen.value for name, chosen in settings.items()}
    options = {name: guess(text) for name, text in strategy_options.items()}
    if isinstance(value["cache"], Path):
        _named(settings["cache"], lambda: require_cache(value["cache"]))
    _named(settings["strategy"], lambda: find_strategy(value["strategy"], options))
    return {
        "strategy": value["strategy"],
        "options": options,
        "order": _named(settings["order"], lambda: find_order(value["order"], problem)),
        "workers": value["workers"],
        "limits": Limits(**{name: value[name] for name in Limits.__struct_fields__}),
        "seed": value["seed"] or 0,
        "on_unknown": value["on-unknown"],
        "on_error": value["on-error"],
        "cache": value["cache"],
    }


def _named(chosen: Chosen, make: Callable[[], T]) -> T:
    """Says where a value comes from that turns out to be wrong."""
    try:
        return make()
    except AiosearchError as error:
        if chosen.origin == "default":
            raise
        raise UsageError(f"{chosen.origin}: {error}") from None
