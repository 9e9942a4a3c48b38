"""What the verification service says about itself: each check, and sums over all of them."""

from __future__ import annotations

from msgspec import Struct

from .verdict import Status


class CheckRecord(Struct, frozen=True):
    """One z3 check that was answered, for traces."""

    process: int
    """The number of the process that was asked, from 0."""
    start: float
    """On `time.monotonic()`, when the process had nothing else left to do before it."""
    end: float
    status: Status


class VerifierStatistics(Struct, frozen=True):
    """What a `Verifier` has done so far."""

    asked: int
    """Questions, answered or not."""
    checks: int
    """Checks that a z3 process was sent and answered; one that died is not among them."""
    memory_hits: int
    disk_hits: int
    joined: int
    """Questions that were already being asked by somebody else."""
    proved: int
    refuted: int
    unknown: int
    """Checks by their answer; `unknown` also counts questions given up after two failures."""
    restarts: int
    """Processes that died, were killed or had used up their memory."""
    cpu_seconds: float
    """CPU time that the answered checks took."""
    queue_seconds: float
    """Time that their questions had waited for a process, all together."""
    in_flight: int
    queued: int
