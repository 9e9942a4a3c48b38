"""Everything that aiosearch raises."""

from __future__ import annotations


class AiosearchError(Exception):
    """Base of every error that aiosearch raises on purpose."""


class ProblemError(AiosearchError):
    """A problem broke its contract, or raised: names problem, method and the node's path."""

    def __init__(
        self, problem: str, method: str, reason: str, path: tuple[int, ...] | None = None
    ) -> None:
        self.problem = problem
        self.method = method
        self.reason = reason
        self.path = path
        super().__init__(problem, method, reason, path)

    def __str__(self) -> str:
        where = "" if self.path is None else f" at node {format_path(self.path)}"
        return f"{self.problem}.{self.method}{where}: {self.reason}"


class StrategyError(AiosearchError):
    """A strategy is unknown, cannot be loaded, speaks another api, or broke its contract."""


class JournalError(AiosearchError):
    """A journal cannot be written, or belongs to another problem or version."""


class WorkerError(AiosearchError):
    """Worker processes keep dying, or cannot be started."""


def format_path(path: tuple[int, ...]) -> str:
    """Writes a path as `root/2/0/5`, the middle of a very long one left out."""
    steps = ["..." if step < 0 else str(step) for step in path]
    if len(steps) > 40:
        steps = [*steps[:20], f"...{len(steps) - 40} more...", *steps[-20:]]
    return "/".join(["root", *steps])
