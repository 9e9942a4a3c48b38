"""The messages between the host and its workers, and the errors that they carry.

Each message is a msgpack array whose tag says which one it is, such as `[3, 17]` for
`Publish(session=17)`. Fields are told apart by position: new ones go to the end, with a default.
`failure_of` writes down what went wrong on a worker, and `error_of` raises it on the host.
"""

from __future__ import annotations

import traceback
from typing import TypeAlias

import msgspec
from msgspec import Struct

from ...errors import AiosearchError, ProblemError, StrategyError
from ...problem import Obligation
from ..explore.bundles import Bundle
from ..explore.counts import Counts
from .reference import ObjectReference


class Begin(Struct, frozen=True, array_like=True, tag=1):
    """Opens a session: one search on one worker."""

    session: int
    problem: ObjectReference
    order: ObjectReference
    on_unknown: str
    skip_errors: bool
    z3_version: str
    table: str = ""
    """Where `SharedClaims.attach` opens the table of keys; empty where there is none."""
    owner: int = 0
    """The number of this life of this worker, in that table and on the board."""
    report_seconds: float = 0.2
    record_keys: bool = False
    """Whether reports carry the keys claimed, for the journal."""
    asker: str = ""
    """In whose name z3 is asked: equal questions in two names are two questions."""
    exchange: str = ""
    """The board over which workers of one machine pass subtrees on: `module:Class`, or empty."""
    board: str = ""
    """Where `Board.join` opens that board."""
    place: int = 0
    """This worker's place on it."""
    breath: float = 0.0
    """Seconds for which the host need not hear what workers may settle among themselves."""
    free_nodes: int = 0
    """How many nodes may be explored of what other workers offer, without a grant of the host."""


class AddSubtrees(Struct, frozen=True, array_like=True, tag=2):
    """Adds subtrees to a session, or a grant of `nodes` only."""

    session: int
    bundles: tuple[Bundle, ...]
    seconds: float
    """After so many seconds of exploring, everything left is given back; 0 for never."""
    nodes: int
    """How many nodes may be explored on top of what was granted before."""
    depth: int = 0
    """Where it is not zero, the session goes level by level to this depth, then gives each subtree
    back by itself."""


class Publish(Struct, frozen=True, array_like=True, tag=3):
    """Asks a session for half of its subtrees, now or as soon as it has two."""

    session: int


class VerdictReplies(Struct, frozen=True, array_like=True, tag=4):
    """Answers each `VerdictRequest` that z3 or a cache has settled since."""

    session: int
    verdicts: tuple[tuple[bytes, str], ...]
    """Digests, and the `Status` of each."""


class IncumbentBroadcast(Struct, frozen=True, array_like=True, tag=5):
    """Tells the cost to beat, of the best solution so far."""

    session: int
    cost: float


class ReportRequest(Struct, frozen=True, array_like=True, tag=6):
    """Asks for a report now, and sets how often they come from now on."""

    session: int
    report_seconds: float


class End(Struct, frozen=True, array_like=True, tag=7):
    """Closes a session and forgets what it holds."""

    session: int


class Ping(Struct, frozen=True, array_like=True, tag=8):
    """Asks a worker for a `Hello`, to see whether it listens. Belongs to no session."""

    session: int = 0


class Entered(Struct, frozen=True, array_like=True, tag=9):
    """What a `WorkerReport` offered is in the books: now others may see it."""

    session: int
    report: int


class Drain(Struct, frozen=True, array_like=True, tag=15):
    """Asks for everything that is held back, and that nothing is taken until work is sent."""

    session: int


class Hello(Struct, frozen=True, array_like=True, tag=10):
    """A worker has started, or answers a `Ping`. Belongs to no session."""

    session: int = 0


class WorkerReport(Struct, frozen=True, array_like=True, tag=11):
    """One transaction: all that a session did since its last report, and all it still holds.

    A long one comes in parts; only the last, with `final`, carries the counts and takes effect.
    """

    session: int
    final: bool
    kept: tuple[Bundle, ...] = ()
    """Everything that the session still holds; with a report in parts, all parts together."""
    given: tuple[Bundle, ...] = ()
    """Subtrees that are the host's from now on."""
    solutions: tuple[bytes, ...] = ()
    keys: bytes = b""
    """Keys newly claimed, 16 bytes each."""
    idle: bool = False
    """The session holds nothing and waits for work."""
    hungry: bool = False
    """The session has explored all the nodes it was granted."""
    surplus: int = 0
    counts: Counts = msgspec.field(default_factory=Counts)
    costs: tuple[float, ...] = ()
    """One cost for each of `solutions` in all parts, where the problem has costs."""
    sequence: int = 0
    works: int = 0
    """How many `AddSubtrees` with work this session had received."""
    offered: tuple[tuple[int, Bundle], ...] = ()
    """Subtrees that other workers of the machine are to have, under numbers, once the host says
    that it has entered them."""
    gone: tuple[tuple[int, int], ...] = ()
    """Offers that are there no more: numbers, and the owners who have them; the session itself,
    where it has regained them."""
    took: tuple[tuple[int, int], ...] = ()
    """Other workers' offers that were taken: owners and numbers."""
    depths: dict[int, int] = {}
    """About how many of the nodes lie at which depth."""


class VerdictRequest(Struct, frozen=True, array_like=True, tag=12):
    """Asks z3 an `Obligation`, by its digest."""

    session: int
    digest: bytes
    obligation: Obligation
    priority: float


class Withdraw(Struct, frozen=True, array_like=True, tag=13):
    """Needs the answers to these digests no more."""

    session: int
    digests: tuple[bytes, ...]


class WorkerFailed(Struct, frozen=True, array_like=True, tag=14):
    """The problem broke its contract, or raised."""

    session: int
    problem: str
    """The problem's class; empty where not the problem failed, but the strategy's board."""
    method: str
    reason: str
    path: tuple[int, ...] | None
    trace: str = ""


ToWorker: TypeAlias = (
    Begin
    | AddSubtrees
    | Publish
    | VerdictReplies
    | IncumbentBroadcast
    | ReportRequest
    | End
    | Ping
    | Entered
    | Drain
)
ToHost: TypeAlias = Hello | WorkerReport | VerdictRequest | Withdraw | WorkerFailed

encode = msgspec.msgpack.Encoder().encode
decode_for_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_for_host = msgspec.msgpack.Decoder(ToHost).decode


def failure_of(session: int, problem: str, error: Exception) -> WorkerFailed:
    """Describes what a search raised while it ran, with the traceback of what is to blame."""
    trace = "".join(traceback.format_exception(error.__cause__ or error))
    if isinstance(error, ProblemError):
        return WorkerFailed(session, problem, error.method, error.reason, error.path, trace)
    return WorkerFailed(session, problem, "", f"{type(error).__name__}: {error}", None, trace)


def open_failure(begin: Begin, error: Exception) -> WorkerFailed:
    """Describes what cannot be begun: the problem's own fault, or the board's."""
    if isinstance(error, StrategyError):
        return WorkerFailed(begin.session, "", "", str(error), None)
    reason = f"a worker cannot build the problem: {type(error).__name__}: {error}"
    return WorkerFailed(begin.session, begin.problem.qualname, "__init__", reason, None)


def error_of(message: WorkerFailed) -> AiosearchError:
    """What the host raises for a `WorkerFailed`."""
    if not message.problem:
        return StrategyError(message.reason)
    if message.method:
        return ProblemError(message.problem, message.method, message.reason, message.path)
    return AiosearchError(f"{message.problem}: the engine failed: {message.reason}")
