"""z3 itself: the only module that imports it, and only z3 processes import this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import z3

from .verdict import Reason, Status

if TYPE_CHECKING:
    from .session_cache import Watchdog

UNSCOPED = ("datatype", "-rec", "type-var", "(set-", "(push", "(pop", "(reset", "(exit")
"""What the parser's scopes do not undo: z3 keeps datatypes and recursive functions for good, and
crashes when a scope that held some is left and they are used."""


class ParseError(Exception):
    """z3 cannot parse a text; its first message says why."""


class Z3Session:
    """One z3 context that holds one set of axioms and answers questions over it.

    Axioms are parsed and asserted once. A question's symbols are those of the axioms when their
    names and signatures are equal, because a context has one symbol for each.

    A session for one question only takes any; one that lasts, those that `leaves_traces` denies.
    """

    def __init__(self, axioms: str, logic: str, lasts: bool = True) -> None:
        self.checks = 0
        self._lasts = lasts
        self._context = z3.Context()
        self._parser = z3.ParserContext(self._context)
        self._logic = logic
        self._keeps_solver = bool(axioms) or not logic
        self._solver = self._make_solver()
        self._rlimit = 0
        if axioms:
            self._solver.add(self._parse_axioms(axioms))

    def check(self, query: str, rlimit: int, watchdog: Watchdog) -> tuple[Status, str]:
        """Answers one question, and why when the answer is unknown.

        Raises `ParseError` for a bad query. After any exception the session must not be
        used again.
        """
        self.checks += 1
        goals = self._parse_scoped(query) if self._lasts else self._parse(query)
        if not self._keeps_solver:
            # A specialised solver is stronger and forgets nothing when it is new: 0.3 ms more on
            # an easy bit-vector goal, a third of the time on a hard one, and the same verdict
            # whatever was asked before.
            self._solver = self._make_solver()
            self._rlimit = 0
        solver = self._solver
        if rlimit != self._rlimit:
            solver.set(rlimit=rlimit)
            self._rlimit = rlimit
        solver.push()
        solver.add(goals)
        with watchdog.watch(self._context.interrupt):
            result = solver.check()
        why = str(solver.reason_unknown()) if result == z3.unknown else ""
        solver.pop()
        return self._status(result), why

    def _status(self, result: Any) -> Status:
        if result == z3.unsat:
            return Status.PROVED
        return Status.REFUTED if result == z3.sat else Status.UNKNOWN

    def _make_solver(self) -> Any:
        if self._logic:
            return _explained(z3.SolverFor, self._logic, self._context)
        solver = z3.Solver(ctx=self._context)
        # Candidates that are not equal would otherwise have z3 build models for the quantifiers
        # until the budget is gone: 1 ms against the whole time limit.
        solver.set(auto_config=False, mbqi=False)
        return solver

    def _parse_scoped(self, query: str) -> Any:
        """Parses inside a scope of one parser, four times faster than a new parser each time."""
        try:
            goals = self._parser.from_string("(push)" + query)
            self._parser.from_string("(pop)")
            return goals
        except z3.Z3Exception:
            # The parser may hold half a query now. A new one says whose fault it is, and where.
            self._parser = z3.ParserContext(self._context)
            return self._parse(query)

    def _parse_axioms(self, axioms: str) -> Any:
        try:
            return self._parse(axioms)
        except ParseError as error:
            raise ParseError(f"in the axioms: {error}") from error

    def _parse(self, text: str) -> Any:
        return _explained(z3.parse_smt2_string, text, ctx=self._context)


def _explained(function: Any, *arguments: Any, **options: Any) -> Any:
    try:
        return function(*arguments, **options)
    except z3.Z3Exception as error:
        message = message_of(error)
        if "memory" in message:
            raise
        raise ParseError(message) from error


def leaves_traces(text: str) -> bool:
    """Says whether a query or axiom set would leave something behind in the context."""
    return any(word in text for word in UNSCOPED)


def message_of(error: BaseException) -> str:
    """Gives z3's first message: exceptions hold bytes such as `(error "line 1 column 18: ...")`."""
    value = error.args[0] if error.args else error
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    first = text.strip().split("\n", 1)[0]
    return first.removeprefix('(error "').removesuffix('")')


def normalise(why: str) -> Reason:
    """Maps z3's many words for giving up to the few that callers tell apart."""
    if "memory" in why or "memout" in why:
        return Reason.MEMORY_LIMIT
    if "incomplete" in why:
        return Reason.INCOMPLETE
    limits = ("resource", "cancel", "timeout", "interrupt", "no reason")
    return Reason.RESOURCE_LIMIT if any(word in why for word in limits) else Reason.INCOMPLETE


def limit_memory(megabytes: int) -> None:
    z3.set_param("memory_max_size", megabytes)


def memory_used() -> int:
    """Gives the bytes that z3 has allocated in this process."""
    return int(z3.Z3_get_estimated_alloc_size())


Z3Error = z3.Z3Exception
